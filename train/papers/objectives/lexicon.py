"""Words that can be swapped so that a caption becomes false: attributes by kind, and opposites.

Within a kind the words of one line mean the same and never replace each other. The words are those of
Spot-the-diff, of CLEVR-Change and of Birds-to-Words.
"""

from __future__ import annotations

KINDS: dict[str, tuple[str, ...]] = {
    "colour": (
        "red", "green", "blue", "yellow", "orange", "purple violet", "pink", "brown tan", "grey gray silver",
        "white", "black", "cyan", "reddish", "greenish", "bluish", "yellowish", "brownish", "greyish grayish",
    ),
    "shade": ("dark darker", "light lighter pale paler", "bright brighter vivid"),
    "size": ("big large bigger larger", "small tiny little smaller", "long", "short shorter"),
    "material": ("metal metallic shiny", "rubber matte"),
    "shape": ("cube block", "sphere ball", "cylinder"),
    "side": ("left", "right", "middle center centre"),
    "height": ("top upper", "bottom lower"),
    "depth": ("front foreground", "back background behind"),
    "number": ("one single", "two", "three", "four", "five", "six", "several many"),
    "thing": (
        "person man woman pedestrian", "car", "truck", "van", "bus", "bicycle bike", "motorcycle scooter",
        "dog", "umbrella", "bag", "cart", "chair", "table", "box", "bottle",
    ),
    "things": ("people persons men pedestrians", "cars", "trucks", "vans", "buses", "bicycles bikes"),
    "ground": ("road street", "sidewalk pavement", "grass lawn", "lot"),
    "doing": ("walking", "standing", "sitting", "running", "parked", "driving", "riding"),
    "part": (
        "head crown", "wing wings", "tail", "breast chest", "belly abdomen", "throat neck",
        "beak bill", "eye eyes", "leg legs feet",
    ),
    "pattern": ("spotted spots spotting", "striped stripes streaked", "solid plain"),
    "build": ("stocky plump", "slender slim thin"),
}  # fmt: skip
"""Attribute words, by what they say."""

OPPOSITES: tuple[tuple[str, str], ...] = (
    ("animal1", "animal2"),
    ("before", "after"),
    ("first", "second"),
    ("left image", "right image"),
    ("left picture", "right picture"),
    ("has appeared", "has disappeared"),
    ("have appeared", "have disappeared"),
    ("appeared", "disappeared"),
    ("appears", "disappears"),
    ("was added", "was removed"),
    ("has been added", "has been removed"),
    ("added", "removed"),
    ("has arrived", "has left"),
    ("is now there", "is gone"),
    ("are now there", "are gone"),
    ("is new", "is missing"),
    ("there is now", "there is no longer"),
    ("there are now", "there are no longer"),
    ("is now", "is no longer"),
    ("are now", "are no longer"),
    ("more", "fewer"),
)
"""What the two frames, or the two animals, swap; the first that a caption has on either side is taken."""

TURNS = ("changed to", "turned", "became", "has become", "turned into", "been replaced by", "replaced by")
"""Between what something was and what it is."""
