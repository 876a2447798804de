#include "harness/worker/heartbeat.h"

#include <csignal>
#include <pthread.h>
#include <utility>

#include "harness/worker/stacks.h"

namespace harness {
namespace {

constexpr int kPeriodSeconds = 2;  // fast enough to tell a standstill, slow enough to cost nothing

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

HeartbeatThread::HeartbeatThread(Channel& channel, const Progress& progress)
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
  const timespec period{kPeriodSeconds, 0};
  while (!stop_) {
    const int signal = sigtimedwait(&set, nullptr, &period);
    if (stop_) {
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (task_) {
        task_();
      }
    }
    channel_.write(progress_.heartbeat());
    if (signal == SIGUSR1) {
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
  }
}

}  // namespace harness
