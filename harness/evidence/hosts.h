// What the controller records of ranks that a launcher started on this host or another, and of the hosts.
#pragma once

namespace harness {

// It could not reach a rank any more: "rank 1: nothing came over its link for 20 s". What the rank did then is not known.
inline constexpr const char* kLinkLostFact = "link_lost";
// A launcher ended badly, or before its ranks: "was ended by signal 9".
inline constexpr const char* kLauncherEndedFact = "launcher_ended";

}  // namespace harness
