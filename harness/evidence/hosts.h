// What the controller records of ranks that a launcher started on this host or another, and of the hosts.
#pragma once

namespace harness {

// It could not reach a rank any more: "rank 1: nothing came over its link for 20 s". What the rank did then is not known.
inline constexpr const char* kLinkLostFact = "link_lost";
// A launcher, or whoever started an agent, asked for the end of a rank that was not done: "rank 1".
inline constexpr const char* kEndedByLauncherFact = "ended_by_launcher";
// A launcher ended badly: "was ended by signal 9".
inline constexpr const char* kLauncherEndedFact = "launcher_ended";

}  // namespace harness
