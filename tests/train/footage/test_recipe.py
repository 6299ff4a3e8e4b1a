from pathlib import Path

import pytest

from train.footage.recipe import Mix, Plans, Recipe, load_recipe


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("mix: {real: 1.0}\nsmall_pixels: [10, 20]\n")
    assert load_recipe(path) == Recipe(mix=Mix(real=1.0), small_pixels=(10.0, 20.0))
    path.write_text("")
    assert load_recipe(path) == Recipe()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disturb: 0.3", "disturb: Unexpected"),
        ("mix: {reel: 1}", "mix.reel"),
        ("crops: many", "crops: "),
        ("disturbed: 3", "disturbed must be within 0..1"),
        ("- 1", "must hold a mapping"),
        ("[", "recipe.yaml:1: broken YAML"),
        ("disturbed: .1\ndisturbed: .2", "recipe.yaml:2: the key 'disturbed' is given twice"),
    ],
)
def test_what_has_no_meaning_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"recipe\.yaml") as error:
        load_recipe(path)
    assert said in str(error.value)


def test_shares_and_bounds_are_checked() -> None:
    with pytest.raises(ValueError, match="shares of the mix"):
        Recipe(mix=Mix(0, 0, 0, 0, 0, 0))
    with pytest.raises(ValueError, match="shares of the plans"):
        Recipe(plans=Plans(moved=-0.1))
    with pytest.raises(ValueError, match="small_pixels must be positive and ascending"):
        Recipe(small_pixels=(30.0, 12.0))
    with pytest.raises(ValueError, match="at least 1"):
        Recipe(rare_tries=0)
