// A thread that looks at the progress counters ten times a second, writes them every 2 s and, when the controller sends SIGUSR1,
// the stacks of all threads.
// It uses neither LibTorch nor locks that the training thread holds for long, so it speaks while everything else is stuck.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "harness/worker/channel.h"
#include "harness/worker/work_counters.h"

namespace harness {

// Blocks SIGUSR1 in the calling thread and so in all that it starts: call first in main().
void block_stack_request();

class HeartbeatThread {
 public:
  HeartbeatThread(Channel& channel, Progress& progress);
  ~HeartbeatThread();
  HeartbeatThread(const HeartbeatThread&) = delete;
  HeartbeatThread& operator=(const HeartbeatThread&) = delete;

  // Runs on the thread before each beat; empty for none. Returns when a running one has ended.
  void set_task(std::function<void()> task);
  // Asked at each look how busy this process's device is, in percent; empty for none. As set_task().
  void set_device_load(std::function<int()> load);

 private:
  void run();
  void beat();
  void tell_stacks();

  Channel& channel_;
  Progress& progress_;
  std::mutex mutex_;
  std::function<void()> task_;
  std::function<int()> device_load_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Something to do before each beat, for as long as this lives.
class HeartbeatTask {
 public:
  HeartbeatTask(HeartbeatThread& thread, std::function<void()> task) : thread_(thread) {
    thread_.set_task(std::move(task));
  }
  ~HeartbeatTask() { thread_.set_task({}); }
  HeartbeatTask(const HeartbeatTask&) = delete;
  HeartbeatTask& operator=(const HeartbeatTask&) = delete;

 private:
  HeartbeatThread& thread_;
};

// Tells the looks at this process how busy its device is, for as long as this lives.
class DeviceLoad {
 public:
  DeviceLoad(HeartbeatThread& thread, std::function<int()> load) : thread_(thread) {
    thread_.set_device_load(std::move(load));
  }
  ~DeviceLoad() { thread_.set_device_load({}); }
  DeviceLoad(const DeviceLoad&) = delete;
  DeviceLoad& operator=(const DeviceLoad&) = delete;

 private:
  HeartbeatThread& thread_;
};

}  // namespace harness
