"""Files that may come from anywhere are read or refused; `script/fuzz --readers` looks for exceptions."""

import pytest

from hostile.readers import ODD, READERS, tried


@pytest.mark.parametrize("name", READERS)
def test_a_whole_file_is_read(name):
    read, seeds = READERS[name]
    for content in seeds():
        if name == "table":  # not every table is for every task
            tried(name, content)
        else:
            read(content)


@pytest.mark.promise(12, "readers of four formats; script/fuzz --readers has atheris look further")
@pytest.mark.parametrize(("name", "content"), ODD)
def test_bytes_that_are_nearly_a_file_are_read_or_refused(name, content):
    tried(name, content)
