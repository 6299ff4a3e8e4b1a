"""The settings of perception in video: one table, each with its unit and its reason.

They were chosen on training and validation cameras (docs/adr/0023), and are read where they are used, so that
a benchmark can set one. What was fitted to evidence is in `confidence.json`; the settings of stills are in
`models/grounded/settings.py`. Sizes are an object's own, shares 0..1, levels those of grey, log odds natural.
"""

# Regions: where the detector looks
WHOLE_EVERY = 10  # of so many pictures one is looked at whole, so that nothing is missed for long
WHOLE_SHARE = 0.6  # so is one of which regions would take a larger share: they would save little
BLOCK_PIXELS = 8  # side of the blocks that are compared
BLOCK_LEVELS = 5  # by which the mean of 3 x 3 blocks differs, in any channel, where they have changed
BLOCK_MARGIN = 2  # blocks around what has changed
UNCUT_SCORE = 0.3  # of objects that no region may cut
REGION_COST_SHARE = 0.04  # of the picture: what another region costs beside its pixels
REGION_EDGE_PIXELS = 2  # a box that comes so close to a region's edge is cut by it
REGION_SAME_SHARE = 0.5  # of a cut box in a known one from which they are one object

# Suppression: detections that are no object of their own
LEAST_SCORE = 0.12  # of a detection that may continue a track
SAME_DETECTION_IOU = 0.7  # from which two detections of any class are one
ASTRIDE_SHARE = 0.4  # of a person's lower half that lies on the two-wheeler he rides
LARGE_SHARE = 0.1  # of the frame from which a detection needs `LARGE_SCORE`: weak ones are roads
LARGE_SCORE = 0.35

# Association: which detection continues which track
ASSOCIATION_WEIGHTS = (-8.0, -2.5, 0.9, -3.8, 3.3, -1.3, -0.6, -1.0, 3.0, 4.3, 5.3, -4.0)
"""Log odds of the terms in `association_odds`: fitted to tracks of validation cameras, but for the last."""
FAR_SIZES = 8.0  # beyond which distances count as this much: nothing is compared there
MOST_LOG_ODDS = 30.0  # that the assignment weighs of a pair: a sure one does not outweigh many
SURE_SCORE = 0.3  # from which a detection finds its track first and may begin one
WEAK_PENALTY_LOG_ODDS = 1.0  # that a weaker detection needs on top
MOVING_LOST_S = 2.6  # for so long a lost track that moved is continued by a detection that fits
RESTING_LOST_S = 10.0  # the same of one that rested
APPEARANCE_BLEND = 0.3  # share of a new detection in a track's appearance
CONFIRMING_OBSERVATIONS = 4  # that make a track confirmed

# Tracks: motion, rest, and what is kept of them
JITTER_S = 0.02  # by which frames may come early
LONGEST_STEP_S = 1.0  # a longer step between two frames counts as this much: nothing moved meanwhile
VELOCITY_S = 0.8  # observations of so many seconds make a velocity
AHEAD_S = 1.0  # a track is predicted no further than this
EDGE_SHARE = 0.006  # of the frame: a side so near to its edge is cut there
REST_S = 2.0  # in one place after which a track rests
REST_SIZES = 0.35  # within which it is one place
MOVED_SIZES = 1.0  # from where it was first, without which it is part of the scene
KEEP_S = 12.0  # for so long every observation and ended track is kept; older observations are thinned out
THIN_S = 2.0  # between two observations that are left of them
MOST_OBSERVATIONS = 240  # of one track
RESHAPED_SHARE = 0.01  # by which another aspect is another camera
UNWATCHED_SURELY_S = 20.0  # for so long unwatched, what stands there is surely the same
UNWATCHED_MAYBE_S = 900.0  # ... may be the same

# Votes of a track for what it is: sure cars have .75 for vehicles and .02 for two-wheelers
KNOWN_VOTES = 0.5  # for a family below which it is not known what it is
KNOWN_PERSON_VOTES = 0.3  # the same for people
RIDDEN_SHARE = 0.3  # of observations with somebody astride from which it is ridden
RIDDEN_OPEN_SHARE = 0.7  # ... by a rider whose kind is open, which pushed prams and bicycles are, too
RIDDEN_VOTES = 0.1  # for two-wheelers without which it is not ridden
ENGINE_SHARE = 0.1  # of observations with somebody astride, in dense traffic, if a bicycle is unlikely
ENGINE_VOTES = 0.14  # for two-wheelers that this takes
ENGINE_RATIO = 2.0  # of the votes for motorcycles to those for bicycles that this takes
RIDER_KIND_VOTES = 0.64  # of the votes for two-wheelers, to call the rider a cyclist or a motorcyclist
VEHICLE_VOTES = 0.7  # for vehicles below which the kind of vehicle is left open
VEHICLE_KIND_VOTES = 0.6  # of the votes for vehicles, to name the kind

# Memory: the last pictures, by which events are checked
MEMORY_PIXELS = 320  # width of its pictures
MEMORY_S = 6.0  # that it holds: what turns and departures look back to
PLACE_RIM_SIZES = 0.1  # around a place that are compared as well
FLOW_POINTS = 5  # rows and columns of points in a box
FLOW_WINDOW_PIXELS = (13, 13)  # around a point that is followed
FLOW_BACK_PIXELS = 1.5  # that the way back may miss
FLOW_REACH_PIXELS = 40  # around the points within which they are looked for: pyramids of frames are slow
CAMERA_TURN_S = 0.4  # between two pictures of a camera that turns
CAMERA_TURN_PIXELS = 3.0  # of a picture half as wide by which its corners move: wind moves them less
CAMERA_TURN_POINTS = 12  # fewer are no view
CAMERA_TURN_SHARE = 0.75  # of the points that go along
CAMERA_TURN_SPREAD = 0.55  # of the picture over which they lie: less is something large that moves

# Ends of tracks: entrances and departures
ENTRANCE_WAIT_S = 1.0  # an entrance is decided so long after the first observation
DEPARTURE_WAIT_S = 1.5  # a departure so long after the last one
DEPARTURE_AGAIN_S = 3.5  # what rested or was lost in mid-picture is looked for so long; see `PAIR_S`
ENTRANCE_BEFORE_S = 1.5  # an entrance's frame before is so much earlier than the first observation
DEPARTURE_BEFORE_S = 1.0  # a departure's frame before is so much earlier than the last observation
AT_EDGE_SIZES = 0.25  # from the edge where an end is through it
AT_EDGE_S = 0.7  # of its own motion from the edge where it is as well
HEADED_SHARE = 0.5  # of a speed that leads outwards: within 60 degrees
HEADED_SIZES_PER_S = 0.3  # below which nothing is headed anywhere: boxes at the edge jitter
HIDDEN_S = 2.5  # from the edge who goes there may be hidden: so long before its frame before is still held
TALL_SHARE = 0.25  # of the frame's height: a person who is cut above is not far away
HIDDEN_SHARE = 0.4  # of a box within another's from which it may stand behind it
MOSTLY_HIDDEN_SHARE = 0.6  # ... from which it is hidden all the way to the edge
COVERS_S = 1.5  # from a track's end within which something may come to cover it
FOUND_BEFORE_S = 0.5  # a track is lost so long after the same object was found as another one
FOUND_AFTER_S = 8.0  # for so long an object may be lost and found as another track
FOUND_SIZES = 1.5  # within which it is found
FOUND_SIZES_PER_S = 1.5  # further for each second
UNCHANGED_CORRELATION = 0.87  # of a place above which what was there has not left
UNCHANGED_EARLIER_S = 0.6  # before its end, when the place is looked at as well
ONE_OBJECT_SHARE = 0.5  # of the smaller box within the larger one, in the mean, from which both are one
FOLLOWED_BEYOND_S = 1.0  # that another track of it goes on beyond an end
DOUBLE_S = 2.0  # between two events of one object that is followed twice
TAKEN_OVER_SIZES = 0.5  # from where one track was lost to where another one was then
AT_VEHICLE_VOTES = 0.5  # for a person: beside a vehicle it may be a part of it
AT_VEHICLE_SHARE = 0.5  # of a person within a vehicle's box and what is beside it

# Confidence
LEAST_CONFIDENCE = 0.5  # of an entrance or a departure that is given: likelier right than wrong
LEAST_TURN_CONFIDENCE = 0.659  # of a turn, which is not fitted
OWN_CONFIDENCE = 0.624  # from which a track that overlaps another one is another object
WEAK_TRACK_SCORE = 0.38  # mean of detections below which a track may be of nobody
READER_BIAS = 1.4
"""Log odds by which a strict reader finds sentences less often right than tracks do: on training cameras
30 of 33 where .975 was stated on average (docs/narrations.md)."""
READER_SLOPE = 0.6
"""Factor of the log odds that are left: high ones promise more than a reader finds (docs/narrations.md)."""

# Turns: what stops, parks, meets, waits
HALT_S = 3.0  # what has rested so long has stopped, and sets off when it moves
HALT_DECIDED_S = 1.0  # after `HALT_S`, in which a stop may become certain; later no frame is held
PAIR_S = 4.5  # no frame before is older: no more of them are held
PARKED_S = 20.0  # a vehicle that stopped where hardly anything drives has parked after so long
CAME_SIZES = 1.0  # that something went before it came to rest
CAME_IN_SIZES = 0.2  # the same if it had just come in
VACANT_IOU = 0.2  # up to which no object of a family is at a place: who surely is seen has come or gone
FILLS_SIZES = 0.5  # that it went before it came to rest at a place that was vacant
SURELY_SEEN_SCORE = 0.5  # mean of detections from which a place without any is vacant
ARRIVED_S = 1.0  # from a track's beginning to its rest, where it came to rest before the camera
REST_SEEN_SHARE = 0.75  # of the frames of a rest that show what rests
MET_S = 3.0  # two people who came together have stood so long, with nobody else beside them
MET_EARLIER_S = 10.0  # before, within which they were apart
TOGETHER_SIZES = 1.2  # between two who stand together
APART_SIZES = 3.0  # between them before
WAITING_S = 60.0  # nobody waits who has rested for less
WAITING_FACTOR = 2.0  # times the longest of most rests at a place, for which nobody waits either
WAITING_QUANTILE = 0.9  # of rests: the longest of most
WAITING_RESTS = 8  # by which a place is known
PLACE_CELLS = 16  # rows and columns of places in the picture
DRIVEN_PASSES = 3  # tracks that have driven through a place make it one where things drive
COVERED_SHARE = 0.3  # of a place within a box that lies over it
PART_SHARE = 0.8  # of a box within a surer one of which it is a part
ABSENT_CORRELATION = 0.5  # most likeness of a place with and without somebody or a vehicle
ABSENT_THING_CORRELATION = 0.8  # ... a thing, which fills less of its box
THING_GONE_S = 1.5  # a thing that is not seen for so long is looked for
ARM_WIDTHS = 0.5  # of a person, beside him, from which he reaches a thing
BELOW_HEIGHTS = 0.15  # of a person, below him, the same
REACHED_SHARE = 0.5  # of the thing that lies within

# Lines that are crossed
LINE_CLEAR_SIZES = 0.15  # from a line that are surely on one side: on the line boxes waver
LINE_LONGEST_S = 4.0  # from side to side; who stood on the line longer has crossed at the end

# Things left and taken, whether or not they are detected
SETTLED_S = 3.0  # uncovered for so long, a pixel shows the background
REACHED_S = 40.0  # whoever was there longer ago did not do it
STILL_THERE_S = 3.0  # for so long a lost track may still be there, and cover a place or a door
LEFT_MARGIN_SIZES = 0.1  # around a track that may be part of it
LEFT_MOVES_LEVELS = 12  # by which a pixel moves
LEFT_DIFFERS_LEVELS = 18  # by which it differs from the background
LEFT_REGION_LEVELS = 25.0  # mean of a region: shadows and reflections have less
LEFT_CONTRAST_LEVELS = 8.0  # by which the contrast with the surroundings must differ
LEFT_CORRELATION = 0.7  # of a region before and now from which only its light changed
LEFT_PIXELS = 30  # of a region in a picture `MEMORY_PIXELS` wide
LEFT_SIDE_PIXELS = 5  # of its sides
LEFT_RIM_PIXELS = 4  # around it
LEFT_LARGEST_SHARE = 0.5  # of the person's box: what is larger is somebody
LEFT_NAMED_SHARE = 0.3  # of a region within a thing's box, from which both are one
LEFT_SCENE_SHARE = 0.06  # of the picture that differs when the light or the view has changed
LEFT_ADAPTS_SHARE = 0.1  # of the latest frame in the background
LEFT_CONFIDENCE = 0.66  # not fitted: training cameras hardly show any

# Re-identification of people
SAME_PERSON_SLOPE = 13.0  # log odds of the same person for each 1 of the cosine: fitted (docs/adr/0023)
SAME_PERSON_OFFSET = -7.2  # log odds at a cosine of 0
SAME_PERSON_P = 0.9  # least probability of who is named
VIEW_PIXELS = 48  # height of a person who is embedded
VIEW_CUT_PIXELS = 100  # height from which a person may be cut by the frame's edge
VIEW_HIDDEN_SHARE = 0.3  # of a person within another's box: more is no view
VIEW_FIRST_S = 0.38  # between two of the first `VIEWS_FIRST` views of a track
VIEW_LATER_S = 2.0  # ... later ones
VIEWS_FIRST = 3
VIEWS_MOST = 8  # that a track keeps
VIEWS_FEWEST = 2  # of which something is said
VIEWS_AT_ONCE = 2  # of a frame: 4 ms each
PEOPLE_KEPT_S = 900.0  # for so long those who left are remembered
PEOPLE_KEPT = 64  # so many of them

# Doors
DOOR_LASTS_S = 2.5  # a look counts once it has lasted so long; the gate stays open for 3 s after motion
DOOR_SCENE_S = 10.0  # another look of the surroundings counts once it has lasted so long
DOOR_SEEN_S = 20.0  # when it opened or closed is not known where its last look was longer ago
DOOR_PIXELS = 64  # sides of a look
DOOR_WINDOW_PIXELS = 13  # sides of a window in it
DOOR_SWAY_PIXELS = 4  # of a look by which the camera may have swayed
DOOR_RIM_SIZES = 0.5  # widths and heights around the door that are looked at
DOOR_NOISE_LEVELS2 = 12.0  # variance that is no structure
DOOR_CORRELATION = 0.5  # from which a window looks the same
DOOR_SAME_SHARE = 0.15  # of the door that looks different, at most, where it is as it was
DOOR_DIFFERENT_SHARE = 0.45  # ... at least, where it has opened or closed
DOOR_SCENE_SHARE = 0.4  # of its surroundings that looks different where not only the door has changed
DOOR_COVERED_SHARE = 0.05  # of the door within a box that hides it
DOOR_ADAPTS_SHARE = 0.02  # of the latest look in the one that is known
DOOR_TRIAL_S = 3600.0  # after so long in the other state, and longer than in the usual one, it is the usual
DOOR_CONFIDENCE = 0.75  # not fitted: no door opens in the training footage

# Scenery, which never moves, and who is present
SCENERY_IOU = 0.5  # of two boxes of one fixture, which the detector shakes a little
SCENERY_STAYS_SIZES = 0.35  # within which something stays where it is
SCENERY_GOES_SIZES = 1.0  # from which it has moved
SCENERY_PLACES = 64  # the latest ones
PRESENT_LOST_S = 10.0  # what moved, and was not observed for so long, is not followed any more
PRESENT_IOU = 0.3  # of who was reported and a track that is there from which they are one
