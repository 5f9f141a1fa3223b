"""The report without a browser: escaping, numbers, determinism, nothing loaded from elsewhere."""

import re
from html.parser import HTMLParser

import pytest

from tests.neuron.timeline_view.example import PEAKS, Fallback, snapshot, transformer, work
from torch_trainium.neuron.timeline_view.markup import Markup, element
from torch_trainium.neuron.timeline_view.page import report_page, write_report

HOSTILE = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;"
VOID = {"meta", "link"}


class Structure(HTMLParser):
    """Checks that elements nest, and collects tags and texts."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(page):
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    return structure


def page_of(records, **fields):
    return report_page(snapshot(records, **fields), PEAKS, title="train.py")


def test_elements_nest_and_ids_are_unique():
    structure = parse(report_page(transformer(devices=4), PEAKS, title="train.py"))
    identities = [value for name, value in structure.attributes if name == "id"]
    assert len(identities) == len(set(identities))


def test_every_string_of_the_user_is_escaped():
    records = [
        work(HOSTILE, 0, 10, module=HOSTILE, line=HOSTILE, bound="tensor", flops=9, hbm_bytes=3)
    ]
    fallbacks = {HOSTILE: Fallback(1, 5, (HOSTILE,))}
    view = snapshot(records, fallbacks=fallbacks)
    structure = parse(report_page(view, PEAKS, title=HOSTILE))
    assert structure.tags.count("script") == 1
    assert "img" not in structure.tags
    assert structure.text.count(HOSTILE) >= 5
    assert [value for name, value in structure.attributes if name.startswith("on")] == []


def test_nothing_is_loaded_from_elsewhere():
    page = report_page(transformer(), PEAKS, title="train.py")
    structure = parse(page)
    sources = [v for name, v in structure.attributes if name in ("src", "href", "srcset", "action")]
    assert sources == ["data:,"]
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest", page)


def test_same_timeline_gives_the_same_page(tmp_path):
    for name in ("a.html", "b.html"):
        write_report(transformer(devices=2), tmp_path / name, PEAKS, title="train.py", steps=2)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_scope_without_work_is_a_page_too():
    structure = parse(page_of([]))
    text = " ".join(structure.text)
    assert "No device work was recorded." in text
    assert "None: every operator that ran is native." in text


def test_an_instant_scope_is_a_page_too():
    parse(page_of([work("a", 0, 0, engines={})], end_us=0))


def test_steps_must_be_positive():
    with pytest.raises(ValueError, match="steps=0"):
        report_page(transformer(), PEAKS, title="train.py", steps=0)


def test_lines_are_shown_below_the_folder_that_they_share():
    records = [
        work("a", 0, 1, line="/home/me/run/train.py:1 (main)"),
        work("b", 1, 2, line="/home/me/run/models/gpt.py:2 (forward)"),
        work("c", 2, 3, line="<stdin>:3 (<module>)"),
    ]
    text = parse(page_of(records)).text
    assert {"train.py:1 (main)", "models/gpt.py:2 (forward)", "<stdin>:3 (<module>)"} <= {*text}


def test_caveat_and_profile_are_on_the_page():
    text = " ".join(parse(report_page(transformer(), PEAKS, title="t")).text)
    assert "Emulated." in text
    assert "docs/accuracy.md" in text
    assert "torchneuron-2.33" in text


def test_markup_escapes_all_but_markup():
    assert element("b", ["<", Markup("<i></i>")], data_tip='"&') == (
        '<b data-tip="&quot;&amp;">&lt;<i></i></b>'
    )
    assert element("b", "", hidden=True, title=None, open=False) == "<b hidden></b>"
