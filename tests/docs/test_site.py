"""What the build of the documentation refuses, and pages that list what the code has."""

import pytest
from docs.other_hosts import other_hosts

from scstream import errors
from tests.docs.blocks import read


@pytest.mark.parametrize(
    ("content", "hosts"),
    [
        ('<a href="https://a.org/">a</a>', set()),
        ('<script src="https://a.org/a.js"></script>', {"a.org"}),
        ("<link rel=stylesheet href=//a.org/a.css>", {"a.org"}),
        ('<link rel="canonical" href="https://a.org/page.html">', set()),
        ('<img alt="x" src="images/a.png">', set()),
        (
            "@import 'https://a.org/font.css'; p { background: url(//b.org/b.png) }",
            {"a.org", "b.org"},
        ),
        ("p { background: url(data:image/png;base64,AA//BB) }", set()),
    ],
)
def test_what_would_be_loaded_from_elsewhere_is_found(content: str, hosts: set[str]) -> None:
    assert other_hosts(content) == hosts


def test_the_page_of_errors_has_all_of_them_with_their_exit_codes() -> None:
    page = read("docs/reference/errors.md")
    for name in errors.__all__:
        assert f"`{name}" in page, name
        code = getattr(getattr(errors, name), "exit_code", 1)
        assert code == 1 or f"| `{name}` | `StreamError` | {code}: " in page
