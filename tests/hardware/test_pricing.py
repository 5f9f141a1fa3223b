import pytest

from torch_trainium.hardware import instances, ultraservers
from torch_trainium.hardware.pricing import prices


def test_every_price_is_of_a_known_machine_and_dated():
    assert prices()
    for price in prices():
        assert price.machine in {**instances(), **ultraservers()}
        assert price.usd_per_hour > 0
        year, _, month = price.date.partition("-")
        assert int(year) >= 2025
        assert 1 <= int(month[:2]) <= 12


def test_the_observed_price_is_that_of_24_hours():
    (price,) = (price for price in prices() if price.machine == "trn2.3xlarge")
    assert price.usd_per_hour * 24 == pytest.approx(53.64)
    assert price.region == "sa-east-1"


def test_a_user_can_name_a_file_of_the_same_form(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(
        '[sources]\nmine = "our contract"\n'
        '["trn2.48xlarge"]\n'
        'contract = { value = 20, source = "mine", confidence = "reported", '
        'region = "us-east-2", date = "2027-01" }\n'
    )
    (price,) = prices(file)
    assert (price.machine, price.plan, price.usd_per_hour) == ("trn2.48xlarge", "contract", 20.0)
    assert price.source == "our contract"


def test_a_row_without_its_date_is_refused(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(
        '[sources]\nmine = "x"\n["trn2.48xlarge"]\n'
        'spot = { value = 1, source = "mine", confidence = "reported", region = "r" }\n'
    )
    with pytest.raises(ValueError, match=r"spot of trn2\.48xlarge lacks 'date'"):
        prices(file)
