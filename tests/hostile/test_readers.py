"""Files that may come from anywhere are read or refused; `script/fuzz --readers` looks for exceptions."""

import pytest

from hostile.readers import FOUND, READERS, tried


@pytest.mark.parametrize("name", READERS)
def test_a_whole_file_is_read(name):
    read, seeds = READERS[name]
    for content in seeds():
        if name == "table":  # not every table is for every task
            tried(name, content)
        else:
            read(content)


@pytest.mark.promise(
    12, "bytes that once broke a reader; ten minutes more with script/fuzz --readers"
)
@pytest.mark.parametrize(("name", "content"), FOUND)
def test_bytes_that_once_broke_a_reader_are_refused(name, content):
    tried(name, content)
