#include "harness/worker/heartbeat.h"

#include <csignal>
#include <pthread.h>
#include <utility>

#include "harness/worker/stacks.h"

namespace harness {
namespace {

constexpr int kLooksABeat = 20;
// 20 in 2 s: beats fast enough to tell a standstill. A gap matters from half a second on (20 times a gap against 10 s), and looking
// costs a wake-up of some microseconds.
constexpr timespec kBetweenLooks{0, 100'000'000};

sigset_t stack_request() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

void block_stack_request() {
  const sigset_t set = stack_request();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

HeartbeatThread::HeartbeatThread(Channel& channel, Progress& progress)
    : channel_(channel), progress_(progress), thread_([this] { run(); }) {}

void HeartbeatThread::set_task(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  task_ = std::move(task);
}

void HeartbeatThread::set_device_load(std::function<int()> load) {
  const std::lock_guard lock(mutex_);
  device_load_ = std::move(load);
}

HeartbeatThread::~HeartbeatThread() {
  stop_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void HeartbeatThread::run() {
  pthread_setname_np(pthread_self(), "heartbeat");
  const sigset_t set = stack_request();
  while (!stop_) {
    int signal = -1;
    for (int look = 0; look < kLooksABeat && signal != SIGUSR1 && !stop_; ++look) {
      signal = sigtimedwait(&set, nullptr, &kBetweenLooks);
      progress_.look();
    }
    if (stop_) return;
    beat();
    if (signal == SIGUSR1) tell_stacks();
  }
}

void HeartbeatThread::beat() {
  {
    const std::lock_guard lock(mutex_);
    if (task_) task_();
  }
  channel_.write(progress_.heartbeat());
}

void HeartbeatThread::tell_stacks() {
  Observation observation;
  observation.process_observed = channel_.process();
  observation.look = -1;  // the controller knows which look it asked for
  observation.threads = sample_stacks();
  {
    const std::lock_guard lock(mutex_);
    if (device_load_) observation.device_busy_percent = device_load_();
  }
  channel_.write(observation);
}

}  // namespace harness
