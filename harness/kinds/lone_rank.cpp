#include "harness/kinds/lone_rank.h"

#include <algorithm>
#include <cmath>

#include "harness/kinds/by_hand.h"
#include "harness/worker/fault.h"

namespace harness {

LoneRank::LoneRank(Session& of_session)
    : session(of_session),
      scenario(of_session.the_case().scenario),
      model(make_model(of_session, routes)),
      watch(of_session.channel(), of_session.progress()) {}

std::int64_t LoneRank::prefix_length() const {
  const std::int64_t length = scenario.training.seq_len;
  const auto share = static_cast<std::int64_t>(
      std::floor(scenario.attention.prefix * static_cast<double>(length)));
  return std::clamp<std::int64_t>(share, 1, std::max<std::int64_t>(length - 1, 1));
}

void LoneRank::run(const std::function<void()>& work) {
  Fired fired(session.channel());
  FaultContext context{
      scenario.fault.value_or(FaultRequest{}), session, 0, 1, model, routes, fired};
  if (session.fault() != nullptr) {
    session.fault()->install(context);
  }
  put_by_hand_over(scenario, model);
  watch.install(model);
  const auto finish = [&] {
    fired.write_total();
    write_routes(session, routes);
    watch.write_total();
    session.sample("rss_peak_bytes", kStep, peak_resident_bytes());
  };
  try {
    work();
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

}  // namespace harness
