#include "harness/run/join/agent.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "harness/run/build_info.h"
#include "harness/run/clock.h"
#include "harness/run/join/link.h"
#include "harness/run/join/messages.h"
#include "harness/run/join/token.h"
#include "harness/run/meeting.h"
#include "harness/run/processes/left_behind.h"
#include "harness/run/processes/watched_process.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::int64_t kConnectMs = 20'000;
constexpr std::int64_t kUnstartedMs =
    30'000;                             // of silence, until the controller says its own deadline
constexpr std::int64_t kStateMs = 500;  // as the controller reads /proc
constexpr std::int64_t kLeftByRankMs = 1'000;  // for what a rank leaves behind
constexpr std::int64_t kTermByLauncherMs =
    500;  // between TERM and KILL: launchers kill soon after they ask
constexpr std::int64_t kAskedYetMs =
    1'000;  // between the signals to a rank and to its agent, on a busy machine
constexpr std::size_t kMostUnsent = std::size_t{8}
                                    << 20;  // then the rank has to wait, as at a full pipe
constexpr int kAgentRoundMs = 100;

struct Controller {
  std::string address;
  int port = 0;
};

Controller controller_in(const char* text) {
  const std::string value = text != nullptr ? text : "";
  const std::size_t colon = value.rfind(':');
  constexpr int kMostPort = 65535;
  const auto port =
      colon == std::string::npos ? std::nullopt : nsa::parse_int(value.substr(colon + 1));
  if (!port || *port < 1 || *port > kMostPort) {
    throw nsa::Error(
        std::string(kControllerVariable) + ": found \"" + nsa::shortened(value) +
        "\", wanted ADDRESS:PORT; nsa-harness run --launcher sets it, and the launcher "
        "must hand it on");
  }
  return {value.substr(0, colon), static_cast<int>(*port)};
}

std::string line_in(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Fd signals_as_file() {
  sigset_t set{};
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void write_probe(const std::string& path) {
  try {
    nsa::write_durably(path, "joined\n");
  } catch (const nsa::Error& error) {
    throw nsa::Error(std::string(error.what()) + "; wanted a folder that all hosts share (--out)");
  }
}

class Agent {
 public:
  Agent(const Standing& standing, const Controller& controller, Token token, const char* address)
      : token_(std::move(token)),
        signals_(signals_as_file()),
        link_(connect_to(controller.address, controller.port, kConnectMs), kMaxMessageBytes) {
    join_.token = token_.of_agent();
    join_.rank = standing.rank;
    join_.world = standing.world;
    join_.address = address != nullptr ? address : link_.own_address();
    if (!is_numeric_address(join_.address)) {
      throw nsa::Error(std::string(kAddressVariable) + ": found \"" +
                       nsa::shortened(join_.address) + "\", wanted an IPv4 address in numbers");
    }
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) join_.host = host.data();
    join_.machine = line_in("/proc/sys/kernel/random/boot_id");
    join_.sources = built_source_hash();
    if (standing.rank == 0) {
      listener_ = listen_on(join_.address);
      join_.port = listener_.port;
    }
    link_.send(join_text(join_));
  }

  int run() {
    while (!released_) {
      wait_for_something();
      hear_signals();
      link_.read([this](std::string_view line) { on_line(line); });
      if (rank_) watch_rank();
      if (lost()) return give_up();
    }
    return kExitPass;
  }

 private:
  void wait_for_something() const {
    std::vector<pollfd> waited = {{signals_.get(), POLLIN, 0}};
    link_.add_to(waited);
    if (rank_ && !said_end_ && !is_full()) rank_->add_to(waited);
    if (poll(waited.data(), waited.size(), kAgentRoundMs) < 0 && errno != EINTR)
      usleep(kAgentRoundMs * 1000);
  }

  [[nodiscard]] bool is_full() const { return link_.unsent_bytes() > kMostUnsent; }

  // The launcher asks for an end.
  void hear_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (!rank_) {
        throw nsa::Error("the launcher sent signal " + std::to_string(info.ssi_signo) +
                         " before the start");
      }
      if (launcher_asked_) continue;
      launcher_asked_ = true;
      if (rank_->has_ended()) continue;
      kill_at_ms_ = monotonic_ms() + kTermByLauncherMs;
      rank_->signal_group(SIGTERM);
    }
  }

  void on_line(std::string_view line) {
    const Message message = message_of(line);
    if (message.word == "alive") return;
    if (message.word == "refused") throw nsa::Error("the controller: " + std::string(message.rest));
    if (message.word == "end") {
      released_ = true;
    } else if (message.word == "start" && !rank_) {
      start(message.rest);
    } else if (!rank_) {
      throw nsa::Error("the controller asked for \"" + nsa::shortened(message.word) +
                       "\" before the start");
    } else if (message.word == "look") {
      look(message.rest);
    } else if (message.word == "signal") {
      pass_on(message_of(message.rest));
    } else {
      throw nsa::Error("the controller said \"" + nsa::shortened(message.word) + "\"");
    }
  }

  void start(std::string_view text) {
    const Start start = read_start(text);
    if (!same_secret(start.token, token_.of_controller())) {
      throw nsa::Error("who answers at " + link_.other_address() + " is not the controller");
    }
    deadline_ms_ = start.link_deadline_ms;
    memory_kills_before_ = memory_.kills();
    try {
      write_probe(start.probe);
      rank_ = std::make_unique<LocalProcess>(request_of(start));
    } catch (const nsa::Error& error) {
      link_.send("refused " + std::string(error.what()));
      throw;
    }
    listener_.fd
        .reset();  // the rank has it: were this copy open, nobody would be refused after its end
    link_.send("started " + std::to_string(rank_->pid()));
  }

  [[nodiscard]] ProcessRequest request_of(const Start& start) const {
    ProcessRequest request;
    request.argv = start.argv;
    request.environment = start.environment;
    request.out_path = start.out_path;
    request.err_path = start.err_path;
    if (listener_.fd.is_open()) request.passed = {listener_.fd.get()};
    request.mark = mark_.number;
    add_meeting({start.port, start.store, join_.address, monotonic_ms() - start.now_ms}, request);
    return request;
  }

  void look(std::string_view number) {
    constexpr std::int64_t kMostLook = 1'000'000;
    const auto look = static_cast<int>(read_number(number, 0, kMostLook));
    if (rank_->has_ended()) return;
    if (const auto seen = rank_->look(join_.rank, look, all_processes()))
      link_.send(look_text(*seen));
  }

  void pass_on(const Message& signal) {
    const auto number = static_cast<int>(read_number(signal.word, 1, NSIG - 1));
    if (rank_->has_ended()) return;
    if (signal.rest == "group") {
      controller_asked_ = true;
      rank_->signal_group(number);
    } else {
      rank_->signal(number);
    }
  }

  void watch_rank() {
    if (said_end_) return;
    if (kill_at_ms_ && monotonic_ms() >= *kill_at_ms_) {
      kill_at_ms_.reset();
      if (!rank_->has_ended()) rank_->signal_group(SIGKILL);
    }
    hear_rank();
    const auto& end = rank_->end();
    if (!end) return say_state();
    if (!ended_ms_) ended_ms_ = monotonic_ms();
    // What waits here for a slow controller is no reason to leave off what the rank wrote before its end.
    if (!drain_until_ms_ || is_full()) drain_until_ms_ = monotonic_ms() + kLeftByRankMs;
    hear_rank();
    const bool all_heard = rank_->silent() || monotonic_ms() >= *drain_until_ms_;
    if (all_heard && !may_be_asked_yet(*end)) say_end(*end);
  }

  // Who ends a job signals all of its processes, the rank before its agent perhaps.
  [[nodiscard]] bool may_be_asked_yet(const ExitStatus& end) const {
    return end.signal == SIGTERM && !launcher_asked_ && !controller_asked_ &&
           monotonic_ms() - *ended_ms_ < kAskedYetMs;
  }

  void hear_rank() {
    if (is_full()) return;
    rank_->read(
        [this](LineReader::Piece piece, std::string_view text) {
          const char* word = piece == LineReader::Piece::line       ? "line "
                             : piece == LineReader::Piece::too_long ? "long "
                                                                    : "half ";
          link_.send(word + std::string(text));
        },
        [](const Observation&) {});
  }

  void say_state() {
    if (monotonic_ms() - stated_ms_ < kStateMs) return;
    stated_ms_ = monotonic_ms();
    const auto state = rank_->state();
    const char letter = state ? state->state : '?';
    link_.send(std::string("state ") + letter + " " + std::to_string(state ? state->cpu_ms : 0));
  }

  void say_end(const ExitStatus& status) {
    End end;
    end.status = status;
    const bool by_request = status.signal == SIGTERM || status.signal == SIGKILL;
    end.by_launcher = launcher_asked_ && by_request;
    end.memory = memory_kill(
        memory_.kills() - memory_kills_before_, status.rss_peak_bytes, memory_.usable_bytes());
    rank_->close();
    end_what_is_left();
    link_.send(end_text(end));
    said_end_ = true;
  }

  void end_what_is_left() {
    const LeftBehind left = end_left_behind(mark_);
    if (left.ended.empty() && left.stayed.empty()) return;
    std::cerr << "nsa-harness join: rank " << join_.rank
              << " left processes behind; ended: " << nsa::join(left.ended)
              << "; not ended by SIGKILL: " << nsa::join(left.stayed) << std::endl;
  }

  [[nodiscard]] bool lost() const {
    return !released_ && (!link_.is_open() || link_.silent_ms() >= deadline_ms_);
  }

  // The rank goes with the controller. Where that had let go of everybody, nothing is lost.
  int give_up() {
    const std::string why =
        link_.is_open() ? "nothing came from it for " + std::to_string(deadline_ms_ / 1000) + " s"
                        : link_.why_closed();
    if (said_end_) return kExitPass;
    rank_.reset();
    end_what_is_left();
    std::cerr << "nsa-harness join: rank " << join_.rank << ": the controller is lost (" << why
              << "), so the rank is ended" << std::endl;
    return kExitError;
  }

  Token token_;
  Fd signals_;
  Link link_;
  Join join_;
  Listener listener_;
  MemoryWitness memory_;
  std::unique_ptr<LocalProcess> rank_;
  const CaseMark mark_{"", draw_number()};  // ranks of one case have the same folder
  std::int64_t memory_kills_before_ = 0;
  std::int64_t deadline_ms_ = kUnstartedMs;
  std::int64_t stated_ms_ = 0;
  std::optional<std::int64_t> kill_at_ms_;
  std::optional<std::int64_t> drain_until_ms_;
  std::optional<std::int64_t> ended_ms_;
  bool said_end_ = false;
  bool launcher_asked_ = false;
  bool controller_asked_ = false;
  bool released_ = false;
};

}  // namespace

int join_as_rank(const GetVariable& variable) {
  const Controller controller = controller_in(variable(kControllerVariable));
  const char* token = variable(kTokenVariable);
  if (token == nullptr) throw nsa::Error(std::string(kTokenVariable) + ": found nothing");
  Agent agent(standing_of(variable), controller, Token::of(token), variable(kAddressVariable));
  return agent.run();
}

}  // namespace harness
