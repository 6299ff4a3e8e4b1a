"""The recipe of the data engine: every choice that shapes the samples, with its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from pipeline.changes import ChangeOptions
from pipeline.yaml_lines import YamlError, read_yaml
from train.footage.teachers import TeacherFile

TEST_FOOTAGE = ("vtest*", "opencv_vtest*")
"""OpenCV's sample clip stays a test scene: it is never trained on."""

GROUNDED = ChangeOptions(
    size=(288, 384),
    max_shift=8,
    delta=38,
    noise_factor=1.0,
    eps=3,
    min_samples=10,
    min_area=0.001,
    light_correlation=0.9,
    max_clusters=16,
)
"""The mask pipeline of the grounded captioner: through it all labels go."""


_FORBID = ConfigDict(extra="forbid")
"""A misspelt key must not be taken for a default."""


@with_config(_FORBID)
@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the kinds of pairs; they are scaled to sum to one.

    Attributes:
        real: two frames of a clip, labelled by the teacher.
        median: a frame against the temporal median, labelled by the teacher.
        occasion: frames of two clips of one camera; where a camera has only one clip, as `real`.
        erased: moving objects replaced by what is behind them.
        pasted: objects of other scenes laid into a picture.
        nuisance: nothing but light, noise, shift or recompression.
    """

    real: float = 0.18
    median: float = 0.1
    occasion: float = 0.05
    erased: float = 0.12
    pasted: float = 0.43
    nuisance: float = 0.12


@with_config(_FORBID)
@dataclass(frozen=True, slots=True)
class Plans:
    """Shares of what is pasted; they are scaled to sum to one.

    Attributes:
        single: one object.
        two: two objects at different places.
        moved: one object that moves.
        group: two to four side by side, which the difference mask merges.
        replaced: another one of its kind at the same place.
        many: three to eight at different places, most of them small, some of them moving.
    """

    single: float = 0.28
    two: float = 0.12
    moved: float = 0.14
    group: float = 0.24
    replaced: float = 0.07
    many: float = 0.15


@with_config(_FORBID)
@dataclass(frozen=True, slots=True)
class Recipe:
    """How scenes, objects and nuisances are drawn.

    Attributes:
        mix: shares of the kinds of pairs.
        plans: shares of what is pasted.
        camera_weight: least and largest weight of a camera; between them it is the root of its frames / 24.
        rarity: a label's rarity is (count of the commonest label / its own count) to this power; 0 treats
            all labels alike.
        rare_scenes: scenes are drawn by the mean rarity of their frames to this power; 0 draws them evenly.
        rare_tries: of so many real pairs the one whose changes are rarest is used.
        own_labels: so much likelier is a pasted object of a label that the scene has itself.
        person_weight: so much likelier is a person among pasted objects.
        unknown_share: share of pasted objects that are a lump of texture, of no known class.
        small_share: share of pasted objects of `small_pixels` height, wherever they stand.
        small_pixels: least and largest height of small pasted objects, in pixels of a frame 288 high.
        mixed_group: share of the further members of a group that are of another label.
        tinted: share of pasted vehicles and persons whose colours are changed.
        hard_nuisances: share of the no-change pairs in which the difference mask must show something.
        disturbed: share of the pairs with changes into which a nuisance is mixed that is no change.
        crops: at most so many crops of a label are kept.
        crop_score: least score of the teacher for a crop.
        val_crops: share of the training cameras' crops that only validation pairs use (whole tracks), so
            that few validation cameras can show every label; 0 uses their own crops alone.
        min_explained: a pair labelled by the teacher is used if known changes hold this share of its mask.
        frames_per_camera: about how many frames of a camera the teacher labels.
    """

    mix: Mix = field(default_factory=Mix)
    plans: Plans = field(default_factory=Plans)
    camera_weight: tuple[float, float] = (0.8, 5.0)
    rarity: float = 0.5
    rare_scenes: float = 1.0
    rare_tries: int = 3
    own_labels: float = 3.0
    person_weight: float = 4.0
    unknown_share: float = 0.07
    small_share: float = 0.3
    small_pixels: tuple[float, float] = (14.0, 40.0)
    mixed_group: float = 0.25
    tinted: float = 0.5
    hard_nuisances: float = 0.75
    disturbed: float = 0.25
    crops: int = 800
    crop_score: float = 0.4
    val_crops: float = 0.15
    min_explained: float = 0.6
    frames_per_camera: int = 1300

    def __post_init__(self) -> None:
        """Refuse shares that are none, and bounds the wrong way round."""
        for name, shares in (("mix", self.mix), ("plans", self.plans)):
            values = asdict(shares).values()
            if min(values) < 0 or not sum(values):
                raise ValueError(f"the shares of the {name} must not be negative and not all zero: {shares}")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be within 0..1, not {getattr(self, name)}")
        for name in ("camera_weight", "small_pixels"):
            least, most = getattr(self, name)
            if not 0 < least <= most:
                raise ValueError(f"{name} must be positive and ascending, not {least, most}")
        if min(self.rare_tries, self.crops) < 1 or min(self.own_labels, self.person_weight) <= 0:
            raise ValueError("rare_tries and crops must be at least 1, own_labels and person_weight positive")


_SHARES = (
    "unknown_share",
    "small_share",
    "mixed_group",
    "tinted",
    "hard_nuisances",
    "disturbed",
    "crop_score",
    "val_crops",
    "min_explained",
)


def load_recipe(path: Path) -> Recipe:
    """Read a recipe: a YAML mapping of what differs from the defaults, ``mix`` and ``plans`` nested.

    Raises:
        ValueError: the file cannot be read, or has an unknown key or a value without meaning.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8")).values or {}
    except YamlError as error:
        raise ValueError(error.within(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} must hold a mapping, for example `disturbed: 0.3`")  # noqa: TRY004
    try:
        return TypeAdapter(Recipe).validate_python(dict(content))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ValueError(f"{path}: {wrong}") from error


@dataclass(frozen=True, slots=True)
class ComposeOptions:
    """What to compose, from what.

    Attributes:
        clips: folder of clips; a subfolder is one camera (see `train.footage.cameras.find_clips`).
        teachers: the detectors that label the footage.
        out: folder to be made, in the layout of `train.samples`; only labelled frames may be in it already.
        pairs: training pairs.
        val_pairs: validation pairs, of the validation cameras alone.
        val_cameras: cameras that are held out for validation; empty holds out every sixth.
        exclude: patterns of file names that are never used.
        seed: the same seed, footage and options give the same samples.
        recipe: shares of the kinds, and how scenes, objects and nuisances are drawn.
        variety: how captions are worded, ``plain`` or ``people`` (see `train.compose.grammar`).
        changes: the mask pipeline's options; those with which the captioner will run.
        avoid: JSON Lines that name clips and seconds, for example a benchmark's pairs (see
            `train.footage.scenes.avoided_times`); None avoids nothing.
        avoid_s: frames within so many seconds of a time in `avoid` are used for nothing.
        workers: processes; does not change the samples.
        ray: address of a Ray cluster (see `pipeline.machines`) that does it in place of processes; footage
            and `out` must be at the same path on all of its machines.
        frames: whether the labelled frames of every camera are written as well (`train.footage.labels`).
        labels: see `train.footage.labels.LabelOptions`.
    """

    clips: Path
    teachers: tuple[TeacherFile, ...]
    out: Path
    pairs: int = 6000
    val_pairs: int = 600
    val_cameras: tuple[str, ...] = ()
    exclude: tuple[str, ...] = TEST_FOOTAGE
    seed: int = 1
    recipe: Recipe = field(default_factory=Recipe)
    variety: str = "plain"
    changes: ChangeOptions = GROUNDED
    avoid: Path | None = None
    avoid_s: float = 2.0
    workers: int = 1
    ray: str | None = None
    frames: bool = False
    labels: Path | None = None
