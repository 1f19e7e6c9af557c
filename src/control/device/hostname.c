/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical names: easy to say, hard to guess, the same for ever. The words must never be
 * reordered or replaced: names that people use are made of them.
 */
#include "control/device/hostname.h"

#include "tls/crypto/jws.h"

static const char *const words[] = {
    "acorn",   "agate",  "alder",    "amber",   "anchor",  "apple",    "arbor",   "arrow",
    "ashen",   "aspen",  "aster",    "atlas",   "autumn",  "azure",    "badger",  "bamboo",
    "basil",   "bay",    "beacon",   "beech",   "berry",   "birch",    "bison",   "blaze",
    "bloom",   "breeze", "brick",    "bridge",  "bright",  "brook",    "calm",    "candle",
    "canyon",  "carbon", "castle",   "cedar",   "cello",   "chalk",    "cherry",  "cinder",
    "citrus",  "clay",   "clear",    "cliff",   "cloud",   "clover",   "cobalt",  "comet",
    "copper",  "coral",  "cosmic",   "cove",    "crane",   "creek",    "crisp",   "crystal",
    "cypress", "dahlia", "daisy",    "dawn",    "delta",   "desert",   "dune",    "eagle",
    "early",   "ebony",  "echo",     "elder",   "elm",     "ember",    "emerald", "falcon",
    "feather", "fern",   "field",    "finch",   "fir",     "flint",    "forest",  "fossil",
    "frost",   "galaxy", "garnet",   "gentle",  "ginger",  "glacier",  "golden",  "granite",
    "grove",   "harbor", "hazel",    "heather", "hemlock", "heron",    "hidden",  "hill",
    "holly",   "honey",  "ivory",    "ivy",     "jade",    "jasper",   "jolly",   "juniper",
    "kelp",    "kind",   "lagoon",   "lake",    "lantern", "larch",    "laurel",  "lemon",
    "lilac",   "lily",   "linden",   "lively",  "lotus",   "lucky",    "lunar",   "lupine",
    "magnet",  "mango",  "maple",    "marble",  "marsh",   "meadow",   "mellow",  "mesa",
    "meteor",  "mint",   "misty",    "moon",    "moss",    "mountain", "myrtle",  "nectar",
    "noble",   "north",  "nova",     "oak",     "oasis",   "ocean",    "olive",   "onyx",
    "opal",    "orbit",  "orchid",   "otter",   "owl",     "palm",     "pebble",  "pepper",
    "pine",    "planet", "plum",     "polar",   "pond",    "poplar",   "prairie", "proud",
    "quartz",  "quick",  "quiet",    "quill",   "rain",    "raven",    "reed",    "ridge",
    "river",   "robin",  "rocky",    "rose",    "royal",   "ruby",     "rustic",  "saffron",
    "sage",    "sandy",  "sapphire", "scarlet", "shadow",  "shore",    "silent",  "silver",
    "sky",     "slate",  "snow",     "solar",   "sparrow", "spring",   "spruce",  "star",
    "stone",   "storm",  "summer",   "summit",  "sunny",   "swift",    "tall",    "tango",
    "teal",    "tender", "thistle",  "tidal",   "timber",  "topaz",    "tulip",   "tundra",
    "valley",  "velvet", "violet",   "vivid",   "walnut",  "warm",     "wave",    "willow",
    "wind",    "winter", "wise",     "wren",    "yarrow",  "zephyr",
};

struct sw_slice sw_connector_hostname(struct sw_arena *a, struct sw_slice uid,
                                      struct sw_slice domain)
{
    static const char alphabet[] = "bcdfghjkmnpqrstvwxyz23456789";
    uint8_t h[32];
    char tail[6] = {0};
    size_t first;
    size_t second;

    sw_digest_sha256(uid, h);
    for (size_t i = 0; i < 5; i++)
        tail[i] = alphabet[h[i] % (sizeof(alphabet) - 1)];
    first = ((size_t)h[5] << 8 | h[6]) % SW_ARRAY_LEN(words);
    second = ((size_t)h[7] << 8 | h[8]) % SW_ARRAY_LEN(words);
    return sw_slice_str(sw_arena_printf(a, "%s-%s-%s.%.*s", words[first], words[second], tail,
                                        SW_SLICE_ARG(domain)));
}
