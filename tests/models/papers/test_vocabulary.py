import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.papers.vocabulary import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary, surface, tokenize


def test_tokenize_lowers_and_strips_punctuation():
    assert tokenize("The car (on the LEFT) isn\u2019t there, double-decker!  2 men.") == [
        *["the", "car", "on", "the", "left", "isn't", "there", "double-decker", "2", "men"]
    ]
    assert tokenize(" .,;-' ") == []


def test_surface_is_a_sentence():
    assert surface(["a", "car", "has", "appeared"]) == "A car has appeared."
    assert surface([]) == ""


@given(st.text())
def test_surface_and_tokenize_undo_each_other(text):
    words = tokenize(text)
    assert tokenize(surface(words)) == words


def test_build_counts_and_orders():
    vocabulary = Vocabulary.build(["b a b", "a b c", "The a"], min_count=2)
    assert vocabulary.words == (*SPECIAL, "a", "b")  # three each: by the alphabet
    assert Vocabulary.build(["a"] * 4 + ["b"] * 5).words == (*SPECIAL, "b")


def test_encode_and_decode():
    vocabulary = Vocabulary(["a", "car"])
    assert len(vocabulary) == 6
    tokens = vocabulary.encode("A blue car.")
    assert tokens == [4, UNK, 5, EOS]
    assert vocabulary.decode([BOS, *tokens, PAD, 5]) == ["a", "<unk>", "car"]
    assert vocabulary.encode("") == [EOS]
    with pytest.raises(IndexError):
        vocabulary.decode([6])


def test_batch_pads_and_leaves_out_empty_sentences():
    tokens = Vocabulary(["a", "car"]).batch([["a car", "", "a"], []], max_words=2)
    assert tokens.tolist() == [[[4, 5, EOS], [4, EOS, PAD]], [[PAD] * 3, [PAD] * 3]]
    assert Vocabulary(["a"]).batch([["a a a a"]], max_words=2).tolist() == [[[4, 4, EOS]]]
    assert torch.equal(Vocabulary([]).batch([[]]), torch.full((1, 1, 1), PAD))


@pytest.mark.parametrize("words", [["a", "a"], ["<pad>"], ["Car"], ["two words"], [""]])
def test_odd_words_are_refused(words):
    with pytest.raises(ValueError, match=r"twice|build"):
        Vocabulary(words)
