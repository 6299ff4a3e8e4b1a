"""Keys and signatures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.journal.signatures import Signature, SigningError, SigningKey, public_key


def test_the_key_of_rfc_8032_has_its_public_key():
    """Section 7.1, test 1."""
    key = SigningKey("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert key.public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


@pytest.mark.parametrize("text", ["", "secret-not-hex", "1" * 63, "1" * 65])
def test_what_is_no_key_is_refused_without_showing_it(text):
    with pytest.raises(SigningError, match="--new-key") as raised:
        SigningKey(text)
    assert not text or text not in str(raised.value)
    with pytest.raises(SigningError, match="not a public key"):
        public_key(text)


@given(st.binary(max_size=300))
def test_anything_may_stand_in_the_file(content):
    assert all(isinstance(each, str) for each in Signature.read(content))
