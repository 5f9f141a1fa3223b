"""Operators one by one as compiled programs.

calls       one operator call: its key, its program, its run
"""
