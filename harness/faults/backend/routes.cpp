// Back ends that are not the ones asked for. Seen: a flag that was read and never reached the call; `flag or default`, which
// takes the default when the flag says off; a kernel whose exception is caught around the call, so that plain code runs and
// only the time tells. What runs here is always right, and counts itself by its own name.
#include <algorithm>
#include <stdexcept>

#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"
#include "harness/worker/case_route.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "nsa/seams/refused.h"

namespace harness {
namespace {

using torch::Tensor;

constexpr const char* kOff = "reference";
const std::vector<std::string> kRouteUses = {"layers", "rank", "step", "form"};
const std::vector<std::string> kSeams = {"attend_sel", "attend_win", "attend_cmp"};

// Of what `auto` took where that was asked for.
std::string asked_for(const FaultContext& context, const std::string& seam) {
  const auto device = context.model->parameters().front().device();
  const auto route = route_of(context.session.the_case().scenario, device).route;
  const auto at = route.find(seam);
  return at == route.end() ? kOff : at->second;
}

// The seam whose route is wrong: one for which the scenario asks for a back end, or for none; "" where there is none.
std::string wrong_seam(const FaultContext& context, bool on) {
  std::vector<std::string> fit;
  for (const std::string& seam : kSeams) {
    if ((asked_for(context, seam) != kOff) == on) fit.push_back(seam);
  }
  const std::string& form = context.request.form;
  const bool named = std::find(fit.begin(), fit.end(), form) != fit.end();
  if (fit.empty() || (!form.empty() && !named)) {
    context.lacks("found '" + context.request.name + "', wanted a scenario whose route of " +
                  (form.empty() ? nsa::join(kSeams) : form) + (on ? " is not " : " is ") + kOff);
    return "";
  }
  return form.empty() ? fault_form(context.request, fit) : form;
}

// The seams of a layer with one implementation in one of them.
nsa::AttentionSeams seams_with(const FaultContext& context,
                               const std::string& seam,
                               const std::string& name) {
  return nsa::make_attention_seams(context.model->config(), {{seam, name}});
}

// What a default would turn on: the best that works here.
std::string default_back_end(const FaultContext& context, const std::string& seam) {
  if (seam == "attend_sel") return "packed";
  const torch::Tensor weight = context.model->parameters().front();
  try {
    nsa::check_route(
        context.model->config(), {{seam, "fa2"}}, {weight.device(), weight.scalar_type(), false});
    return "fa2";
  } catch (const nsa::Refused&) {
    return "sdpa";
  }
}

// `other` stands where `asked` should, from the fault's step on.
template <typename... Arguments>
void put(FaultContext& context,
         std::function<Tensor(const nsa::SeamContext&, Arguments...)>& asked,
         std::function<Tensor(const nsa::SeamContext&, Arguments...)> other) {
  asked = [&context, right = std::move(asked), other = std::move(other)](
              const nsa::SeamContext& seam, Arguments... arguments) {
    if (!context.holds_now()) return right(seam, arguments...);
    context.fired();
    return other(seam, arguments...);
  };
}

// The call fails, and what catches it goes on as if nothing had been asked for.
template <typename... Arguments>
std::function<Tensor(const nsa::SeamContext&, Arguments...)> caught(
    std::function<Tensor(const nsa::SeamContext&, Arguments...)> plain) {
  return [plain = std::move(plain)](const nsa::SeamContext& seam, Arguments... arguments) {
    try {
      throw std::runtime_error("no kernel image is available for execution on the device");
    } catch (const std::exception&) {
      return plain(seam, arguments...);
    }
  };
}

void put_into(FaultContext& context,
              nsa::AttentionSeams& seams,
              const std::string& seam,
              nsa::AttentionSeams other) {
  if (seam == "attend_sel") {
    put(context, seams.attend_sel, std::move(other.attend_sel));
  } else if (seam == "attend_win") {
    put(context, seams.attend_win, std::move(other.attend_win));
  } else {
    put(context, seams.attend_cmp, std::move(other.attend_cmp));
  }
}

void install_not_routed(FaultContext& context) {
  const std::string seam = wrong_seam(context, true);
  if (seam.empty()) return;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    put_into(context, seams, seam, seams_with(context, seam, kOff));
  });
}

void install_or_default(FaultContext& context) {
  const std::string seam = wrong_seam(context, false);
  if (seam.empty()) return;
  const std::string back_end = default_back_end(context, seam);
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    put_into(context, seams, seam, seams_with(context, seam, back_end));
  });
}

void install_fallback(FaultContext& context) {
  const std::string seam = wrong_seam(context, true);
  if (seam.empty()) return;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    nsa::AttentionSeams plain = seams_with(context, seam, kOff);
    plain.attend_sel = caught(std::move(plain.attend_sel));
    plain.attend_win = caught(std::move(plain.attend_win));
    plain.attend_cmp = caught(std::move(plain.attend_cmp));
    put_into(context, seams, seam, std::move(plain));
  });
}

}  // namespace

Faults faults_of_routes() {
  return {{"flag_not_routed",
           "a back end is asked for and the plain implementation is called",
           kRouteUses,
           install_not_routed,
           kSeams},
          {"flag_or_default",
           "the plain implementation is asked for and a default turns a back end on",
           kRouteUses,
           install_or_default,
           kSeams},
          {"silent_fallback",
           "the back end asked for throws, and what catches it runs the plain implementation",
           kRouteUses,
           install_fallback,
           kSeams}};
}

}  // namespace harness
