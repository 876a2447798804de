// What a fault of the machine does outside of the rank.
#pragma once

namespace harness {

// Another process on the card: keeps it and a GiB of its memory busy until its parent is gone. Writes one byte to its standard
// output when it has begun. The worker's entry `--occupy CARD`.
[[noreturn]] void occupy_card(int card);

}  // namespace harness
