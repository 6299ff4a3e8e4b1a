"""The settings of perception: one table, each with its unit and its reason.

They were chosen on training and validation cameras (docs/adr/0023), and are read where they are used, so that
a benchmark can set one. Weights that were fitted are in the checkpoint, and their inputs are computed as they
were then; the detector's settings, and those of comparing two stills, are in
`models/grounded/settings.py`. Sizes are an object's own, shares 0..1, levels those of grey, log odds natural.
"""

# Thresholds of a camera, calibrated from its own footage
SCREENING_BLOCK = 16  # side in analysis pixels of a screened block: about a distant person
LOWER_BOUNDS = (16.0, 40.0)  # levels, unless the noise of the whole frame alone is beyond them
UPPER_BOUNDS = (30.0, 75.0)  # levels: two unrelated views are 61 apart in the median
MIN_FRAMES = 5  # fewer frames than this say nothing about a camera; the defaults are taken
LIGHT_DRIFT_LEVELS = 8.0  # between a reference and a frame a minute later, besides noise
NOISE_FACTOR = 1.5  # times the noise, beside this drift, is no motion
NOISE_QUANTILE = 0.9  # of quiet blocks: their noise
QUIET_RATIO = 2.0  # noise is steady: the median of a quiet block is no more than this times its quartile
NOISE_SPREAD = 3.0  # steady traffic is no noise: quiet blocks are within this of the quietest quarter
ACTIVITY_FACTOR = 2.5  # times what objects change of the whole frame is an event of the whole scene
ACTIVITY_QUANTILE = 0.95  # of whole frames: what objects change

# The gate: when something moves
MOTION_LIMIT_LEVELS = 18.0  # by which a block changes that always moves, however busy the scene was before
LOOK_BACK_S = (0.35, 0.95)  # motion is a difference to the newest frame that is so old: quick, and slow
HOLD_S = 3.0  # the gate stays open so long after motion: departures are decided after 1.5 s
PREROLL_S = 1.6  # so much from before it opened is passed on: an event's before frame is 1.5 s old
PAUSE_S = 3.0  # between two frames so far apart nothing can be tracked
GAP_S = 20.0  # so long unwatched, nothing is known: an idle camera shows a frame every ten seconds
SEEN_S = 20.0  # a live camera is noted as seen so often: between a note and a start nobody watched
PAIR_INTERVAL_S = 0.5  # pairs are found among two frames a second, whatever the sampling rate

# Candidate pairs
SMALL_WIDTH = 640  # small pictures are at most this many pixels wide: the width of the detector's input
SETTLE_S = 0.75  # the changed blocks must stay below the lower threshold from sample to sample for so long
MAX_WAIT_S = 3.0  # longest wait for that; then the pair is proposed although things still move
MAX_GAP_S = 60.0  # age at which the reference is renewed while nothing happens
LONG_GAP_S = 300.0  # age at which the long baseline is compared with the quiet scene, and renewed
PASSED_SHARE = 0.5  # of its peak to which the largest block distance falls when an object has left

# Light, view and obstruction
SCENE_STRUCTURE_LEVELS = 3.0  # root mean square gradient, a pixel, from which a block has structure
SCENE_SAME_CORRELATION = 0.4  # from which a block shows the same structure
SCENE_COLLAPSE_SHARE = 0.3  # of what gradients were, below which, without agreement, it is covered
SCENE_BLURRED_SHARE = 0.65  # of what its contrast predicts, below which unchanged structure is blurred
SCENE_MOST_SHARE = 0.5  # of structured blocks that show the same from which the view is the same one
SCENE_FEW_SHARE = 0.14  # ... below which it is another: of days and nights of one camera 1 of 25 lies below
SCENE_OTHER_SHARE = 0.25  # of all blocks that must have structure on both sides, or it is no view at all
SCENE_ALIGNED_DEVIATIONS = 2.8  # standard ones: of days and nights without glare 1 of 100 is below
SCENE_BRIGHTER_LEVELS = 8.0  # by which unchanged blocks must differ for a change of light

# Regions: where the detector looks
WHOLE_EVERY = 10  # of so many pictures one is looked at whole, so that nothing is missed for long
WHOLE_SHARE = 0.6  # so is one of which regions would take a larger share: they would save little
BLOCK_PIXELS = 8  # side of the blocks that are compared
BLOCK_LEVELS = 5  # by which the mean of 3 x 3 blocks differs, in any channel, where they have changed
REGION_COST_SHARE = 0.04  # of the picture: what another region costs beside its pixels
REGION_EDGE_PIXELS = 2  # a box that comes so close to a region's edge is cut by it

# Suppression: detections that are no object of their own
LEAST_SCORE = 0.12  # of a detection that may continue a track
SAME_DETECTION_IOU = 0.7  # from which two detections of any class are one
ASTRIDE_SHARE = 0.4  # of a person's lower half that lies on the two-wheeler he rides
LARGE_SHARE = 0.1  # of the frame from which a detection needs `LARGE_SCORE`: weak ones are roads
LARGE_SCORE = 0.35

# Association: which detection continues which track
SURE_SCORE = 0.3  # from which a detection finds its track first, may begin one, and no region may cut it
WEAK_PENALTY_LOG_ODDS = 1.0  # that a weaker detection needs on top
MOVING_LOST_S = 2.6  # for so long a lost track that moved is continued by a detection that fits
RESTING_LOST_S = 10.0  # the same of one that rested; what moved is reported as lost after it
CONFIRMING_OBSERVATIONS = 4  # that make a track confirmed

# Tracks: motion, rest, and what is kept of them
JITTER_S = 0.02  # by which frames may come early
LONGEST_STEP_S = 1.0  # a longer step between two frames counts as this much: nothing moved meanwhile
VELOCITY_S = 0.8  # observations of so many seconds, twelve at most, make a velocity
EDGE_SHARE = 0.006  # of the frame: a side so near to its edge is cut there
REST_S = 2.0  # in one place after which a track rests
REST_SIZES = 0.35  # within which it is one place
SHIFT_SIZES = 0.5  # between two places of one object: less is no move
MOVED_SIZES = 1.0  # from a place, from which it has moved: what never has is part of the scene
KEEP_S = 12.0  # for so long every observation and ended track is kept; older observations are thinned out
THIN_S = 2.0  # between two observations that are left of them
MOST_OBSERVATIONS = 240  # of one track
REMEMBERED_S = 900.0  # for so long unseen, who or what is there may be the same

# Votes of a track for what it is: sure cars have .75 for vehicles and .02 for two-wheelers
KNOWN_VOTES = 0.5  # for a family below which it is not known what it is
KNOWN_PERSON_VOTES = 0.3  # the same for people
RIDDEN_SHARE = 0.3  # of its last 20 observations, with somebody astride, from which it is ridden
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
RIM_SIZES = 0.1  # around a box: its rim, which may show a part of what is in it, or somebody who gets out
FLOW_BACK_PIXELS = 1.5  # that the way back may miss
CAMERA_TURN_S = 0.4  # between two pictures of a camera that turns
CAMERA_TURN_PIXELS = 3.0  # of a picture half as wide by which its corners move: wind moves them less
CAMERA_TURN_MISSES_PIXELS = 1.0  # that the way back may miss, and a point that goes along
CAMERA_TURN_POINTS = 12  # fewer are no view
CAMERA_TURN_SHARE = 0.75  # of the points that go along
CAMERA_TURN_SPREAD = 0.55  # of the picture over which they lie: less is something large that moves

# Ends of tracks: entrances and departures
ENTRANCE_WAIT_S = 1.0  # an entrance is decided so long after the first observation
DEPARTURE_WAIT_S = 1.5  # a departure so long after the last one; so is a thing missed
LAST_WAIT_S = 0.4  # ... through the edge, where no frame follows
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
FOUND_SIZES = 1.5  # within which it is found, and so many more for each second
UNCHANGED_CORRELATION = 0.87  # of a place above which what was there has not left
UNCHANGED_EARLIER_S = 0.6  # before its end, when the place is looked at as well
SAME_OBJECT_SHARE = 0.5  # of the smaller of two boxes within the other, from which both are of one object
FOLLOWED_BEYOND_S = 1.0  # that another track of it goes on beyond an end
DOUBLE_S = 2.0  # between two events of one object that is followed twice
AT_VEHICLE_FEET = (0.5, 1.15)  # of its height, from its top: between them a person stands at it
AT_VEHICLE_HEIGHTS = (0.3, 1.8)  # of its height: between them a person at it is tall

# Confidence
LEAST_CONFIDENCE = 0.5  # of an entrance or a departure that is given: likelier right than wrong
TURN_CONFIDENCE = (0.4, 0.62, 0.89)  # of a turn: at a score of 0, more for each 1 of it, and at most
LEAST_TURN_CONFIDENCE = 0.658  # of a turn that is told, and of what is left without a name: not fitted
WEAK_TRACK_SCORE = 0.38  # mean of detections below which a track may be of nobody
OWN_CONFIDENCE = 0.624  # from which a track that overlaps another one is another object

# Turns: what stops, parks, meets, waits
HALT_S = 3.0  # what has rested so long has stopped, people have met, and a pixel shows the background
HALT_DECIDED_S = 1.0  # after `HALT_S`, in which a stop may become certain; later no frame is held
PAIR_S = 4.5  # no frame before is older: no more of them are held
PARKED_S = 20.0  # a vehicle that stopped where hardly anything drives has parked after so long
VACANT_IOU = 0.2  # up to which no object of a family is at a place: who surely is seen has come or gone
SURELY_SEEN_SCORE = 0.5  # mean of detections from which a place without any is vacant
ARRIVED_S = 1.0  # from a track's beginning to its rest, where it came to rest before the camera
REST_SEEN_SHARE = 0.75  # of the frames of a rest that show what rests
MET_EARLIER_S = 10.0  # before they met, within which they were apart
TOGETHER_SIZES = 1.2  # between two who stand together
APART_SIZES = 3.0  # between them before, and to anybody else
WAITING_S = 60.0  # nobody waits who has rested for less
WAITING_FACTOR = 2.0  # times the longest of nine in ten rests at a place, for which nobody waits either
WAITING_RESTS = 8  # by which a place is known
PLACE_CELLS = 16  # rows and columns of places in the picture
DRIVES_SIZES_PER_S = 0.5  # of a track that drives through a place
DRIVEN_PASSES = 3  # tracks that have driven through a place make it one where things drive
COVERED_SHARE = 0.3  # of a place, or of a person, within a box that lies over it
PART_SHARE = 0.8  # of a box within a surer one of which it is a part
ABSENT_CORRELATION = 0.5  # most likeness of a place with and without somebody or a vehicle
ABSENT_THING_CORRELATION = 0.8  # ... a thing, which fills less of its box
ARM_WIDTHS = 0.5  # of a person, beside him, from which he reaches a thing
BELOW_HEIGHTS = 0.15  # of a person, below him, the same
REACHED_SHARE = 0.5  # of a thing that lies within his reach, or of a person at a vehicle within its box

# Lines that are crossed
LINE_CLEAR_SIZES = 0.15  # from a line that are surely on one side: on the line boxes waver
LINE_LONGEST_S = 4.0  # from side to side; who stood on the line longer has crossed at the end

# Things left and taken, whether or not they are detected
REACHED_S = 40.0  # whoever was there longer ago did not do it
STILL_THERE_S = 3.0  # for so long a lost track may still be there, and cover a place or a door
LEFT_MOVES_LEVELS = 12  # by which a pixel moves
LEFT_DIFFERS_LEVELS = 18  # by which it differs from the background
LEFT_REGION_LEVELS = 25.0  # mean of a region: shadows and reflections have less
LEFT_CONTRAST_LEVELS = 8.0  # by which the contrast with the surroundings must differ
LEFT_CORRELATION = 0.7  # of a region before and now from which only its light changed
LEFT_PIXELS = 30  # of a region in a picture `MEMORY_PIXELS` wide
LEFT_SIDE_PIXELS = 5  # of its sides
LEFT_LARGEST_SHARE = 0.5  # of the person's box: what is larger is somebody
LEFT_NAMED_SHARE = 0.3  # of a region within a thing's box, from which both are one
LEFT_SCENE_SHARE = 0.06  # of the picture that differs when the light or the view has changed

# Re-identification of people
SAME_PERSON_P = 0.9  # least probability of who is named
VIEW_PIXELS = 48  # height of a person who is embedded
VIEW_CUT_PIXELS = 100  # height from which a person may be cut by the frame's edge
VIEW_LATER_S = 2.0  # between two of its views beyond the first `VIEWS_FIRST`, which are every `LOOK_S`
VIEWS_FIRST = 3
VIEWS_MOST = 8  # that a track keeps
VIEWS_FEWEST = 2  # of which something is said
VIEWS_AT_ONCE = 2  # of a frame: 4 ms each
MOST_KEPT = 64  # people who left, and places of scenery: the latest ones

# Doors
DOOR_LASTS_S = 2.5  # a look counts once it has lasted so long; the gate stays open for 3 s after motion
DOOR_SCENE_S = 10.0  # another look of the surroundings counts once it has lasted so long
DOOR_PIXELS = 64  # sides of a look
DOOR_WINDOW_PIXELS = 13  # sides of a window in it
DOOR_SWAY_PIXELS = 4  # of a look by which the camera may have swayed
DOOR_RIM_SIZES = 0.5  # widths and heights around the door that are looked at
DOOR_CORRELATION = 0.5  # from which a window looks the same
DOOR_SAME_SHARE = 0.15  # of the door that looks different, at most, where it is as it was
DOOR_DIFFERENT_SHARE = 0.45  # ... at least, where it has opened or closed
DOOR_SCENE_SHARE = 0.4  # of its surroundings that looks different where not only the door has changed
DOOR_COVERED_SHARE = 0.05  # of the door within a box that hides it
DOOR_TRIAL_S = 3600.0  # after so long in the other state, and longer than in the usual one, it is the usual
DOOR_CONFIDENCE = 0.75  # not fitted: no door opens in the training footage

# Frames that are held
RING_S = 5.0  # of them an event chooses its own frame before and frame after
RECENT_S = 1.3  # all of so long ago, two a second of what is older
OLDER_S = 0.45  # between two older ones, at least

# Scenery, which never moves, and who is present
STAYS_IOU = 0.5  # of two boxes of one object that stays where it is: the detector shakes them a little
PRESENT_IOU = 0.3  # of who was reported and a track that is there from which they are one

# Repetitions in pairs: one object that keeps moving is reported once
STORY_S = 30.0  # an object not mentioned so long is news again; one that stayed so long rests
STORY_AGAIN_S = 10.0  # an object that was there so shortly before a pair begins has not appeared in it
STORY_ALIKE_RATIO = 4.0  # of areas, up to which two boxes show one object

# Sentences
BRIEF_S = 1.5  # a shorter stay is mostly a piece of a longer one, and is not said
AT_LEAST_S = 5.0  # nor that somebody whom nobody saw come was there for at least less

# Looks at tracks, in small pictures: the colour is what most of them show
LOOK_S = 0.38  # between two looks, at a track or for an embedding: every other frame of five a second
LOOKS_MOST = 16  # at a track
LOOKS_AT_ONCE = 12  # in a frame, at the tracks with the fewest
LOOK_PIXELS = 300  # least area of a box
LOOK_SAME_IOU = 0.5  # above which two boxes show one object
LOOK_HIDDEN_SHARE = 0.1  # of a box that something nearer may cover
LOOKS_AGREE = 2  # at least

# Colours: lightness and chroma are those of CIE Lab, parts of boxes left, top, right and bottom in shares
COLOUR_PIXELS = 100  # with fewer changed ones a vehicle has no colour in compressed video
COLOUR_SHARE = 0.4  # of its body that changed, at least: less is its glass, or something in front of it
COLOUR_BODY = (0.08, 0.05, 0.92, 0.78)  # of a vehicle's box: without edges, tyres and shadow
CAST_S = 2.0  # for so long the cast of a camera's scene is taken to stay
CAST_PIXELS = (96, 72)  # in which the scene's cast is measured
CAST_SHARE = 0.05  # of the frame that shows it
CAST_LIGHTNESS = (15, 92)  # of pixels that say something about it
CAST_CHROMA = 30.0  # above which a pixel says nothing about it
CAST_STRONG_CHROMA = 4.5  # of a scene under sodium lamps or headlights, in which colours are unreliable
VIVID_CHROMA, VIVID_SATURATION = 16.0, 0.3  # above both, of its lightness the second, a pixel has a hue
HUES = {"red": (345, 38), "orange": (41, 80), "yellow": (86, 112), "green": (118, 185), "blue": (235, 308)}
"""Angles in degrees, from and to; between them no colour is sure."""
HUE_SHARE, OTHER_HUES_SHARE = 0.3, 0.12  # of vivid pixels of one hue that names it; of others that forbids it
BLUE_CHROMA = 25.0  # least median of blue paint: silver under a clear sky has less
BROWN = (50.0, 40.0)  # lightness and chroma below which orange is brown
PALE_SHARE = 0.1  # largest share of vivid pixels of what is white, grey or black
PALE_TINT = 0.1  # its largest mean chroma, as a share of its mean lightness
TINT_LIGHTNESS = 25.0  # below which a tint is unreliable
ROAD_LIGHTNESS = 52.0  # of a road by day, on which the shades below count
SHADES = {"white": (80, 150, 0.42), "grey": (48, 78, 0.7), "black": (-50, 38, 0.7)}
"""Lightness from and to, and the least share of pixels between them."""
VOTED_SHADES = {**SHADES, "black": (-50, 44, 0.6)}  # of looks at tracks
WHITE_LIGHTNESS = 85.0  # that a quarter of white paint reaches in any scene; silver in shade does not
BURNT_LIGHTNESS = 94.0  # beyond which a picture is overexposed and shows white, whatever the scene
UPRIGHT_RATIO = 1.5  # least height of a person's box, in its width: who sits or is cut has no chest here
CHEST, LEGS = (0.3, 0.2, 0.7, 0.48), (0.32, 0.54, 0.68, 0.84)  # of a person's box
CLOTH_PIXELS = 60  # of either, at least
WORN_SHARE = 0.6  # least share of vivid pixels of one hue on the chest
BRIGHTNESS = {"dark": (-50, 32, 0.8, -50, 40), "light": (72, 150, 0.75, 50, 150)}
"""Lightness of the chest from and to, the least share of its pixels between; the legs' median from and to."""
VOTED_BRIGHTNESS = {**BRIGHTNESS, "dark": (-50, 32, 0.6, -50, 40)}  # of looks at tracks
