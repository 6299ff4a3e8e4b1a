"""The settings of perception in stills: one table, each with its unit and its reason.

They were chosen on pairs of training cameras (docs/adr/0014). Weights that were fitted are in the checkpoint,
and their inputs are computed as they were then.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PerceptionSettings:
    """Settings of comparing two stills. Sizes are an object's own, shares are of the frame."""

    pixels: int = 230_000  # about how many of a frame the detector sees at once
    fine_pixels: int = 640_000  # the same of stills further apart: more to find than to associate
    fine_gap_s: float = 10.0  # these from here on; of closer stills they show shadows and signs as objects
    same_detection: float = 0.6  # overlap from which two detections of one family are one object
    most_detections: int = 100  # of one picture, the surest ones
    proposed_score: float = 0.15  # detections below are only weighed against the other side, never reported
    in_sight: float = 0.3  # score from which another one makes "the car on the left" ambiguous
    part: float = 0.8  # share of a box within a surer one of its family from which it is the same object
    # what is so wide, in shares of the frame, and so unlikely a change is the road, taken for a vehicle:
    # all that drives on it would be its parts
    ground_width: float = 0.9
    ground_change: float = 0.1
    twice: float = 0.5  # overlap from which two boxes of one side are the same object
    # what lies less than so many sizes from where it was has not moved: 95 of 100 boxes of things at
    # rest, seen twice, lie within .13
    stayed: float = 0.15
    # a move with a match below it is reported by its surer end alone: by the labels .91 of those above are
    # one object, .44 of those below
    doubtful: float = 0.5
    elsewhere: float = 0.05  # if that is so likely, what has appeared or disappeared may have moved
    # something of which at least this share lies in the box of something larger, which is a change of at
    # least this probability, may be behind it
    covered: float = 0.6
    cover_change: float = 0.5
    # an input of the fitted weights: of what could be the other end of a move, the probability to be a
    # change, and the score
    candidate_change: float = 0.3
    candidate_score: float = 0.2
    long_gap_s: float = 60.0  # the same: from so long on the gap between two stills is long
    unknown_gap_s: float = 30.0  # the same: the gap of stills without known times
    rounds: int = 30  # of belief propagation
    # matches below it are no move, however sure it is that both ends moved: of seven below .06 six were
    # a car that drove out and another one
    least_match: float = 0.03
    reach: tuple[float, float] = (2.0, 2.0)  # own sizes of a move, at once and a second: 3 of 923 go further
    # alone_scale, doubtful_scale, moved_scale: slope and offset from the log odds of a fact (an arrival
    # or departure; one that may be elsewhere; a move) to those that its sentence is right, fitted on
    # cameras left out of the other fits
    alone_scale: tuple[float, float] = (1.3, -0.34)
    doubtful_scale: tuple[float, float] = (0.65, 0.35)
    moved_scale: tuple[float, float] = (0.65, 0.4)
    match_worth: float = 0.4  # what a match adds to the worth of a move, so that the likelier partner wins
    least: float = 0.1  # facts below this confidence are dropped, whatever threshold is asked for
    car_below: float = 0.35  # share of bus and truck among a vehicle's names below which it is a car
    vehicle_below: float = 0.7  # the same, below which it is only a vehicle; above, it is a large one
    named: float = 0.85  # share of one name above which a large vehicle is called so


SETTINGS = PerceptionSettings()
