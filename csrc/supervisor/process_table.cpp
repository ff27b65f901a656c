#include "supervisor/process_table.h"

#include <algorithm>
#include <utility>

namespace forensics {

TracedThread& ProcessTable::add(pid_t tid, pid_t process, pid_t parent) {
  TracedProcess& owner = processes_[process];
  if (owner.pid == 0) {
    owner.pid = process;
    owner.parent = parent;
  }
  owner.threads.insert(tid);
  TracedThread& thread = threads_[tid];
  thread.tid = tid;
  thread.process = process;
  return thread;
}

void ProcessTable::remove(pid_t tid) {
  const auto found = threads_.find(tid);
  if (found == threads_.end()) {
    return;
  }
  const auto owner = processes_.find(found->second.process);
  threads_.erase(found);
  if (owner == processes_.end()) {
    return;
  }
  owner->second.threads.erase(tid);
  if (owner->first == tid) {
    for (const pid_t left : owner->second.threads) {
      threads_.erase(left);
    }
    processes_.erase(owner);
  }
}

void ProcessTable::collapse(pid_t process) {
  TracedProcess* owner = this->process(process);
  if (owner == nullptr) {
    return;
  }
  for (const pid_t tid : std::exchange(owner->threads, {process})) {
    if (tid != process) {
      threads_.erase(tid);
    }
  }
  TracedThread& thread = threads_[process];
  thread.tid = process;
  thread.process = process;
  thread.snapshot.reset();
}

TracedThread* ProcessTable::thread(pid_t tid) {
  const auto found = threads_.find(tid);
  return found == threads_.end() ? nullptr : &found->second;
}

TracedProcess* ProcessTable::process(pid_t pid) {
  const auto found = processes_.find(pid);
  return found == processes_.end() ? nullptr : &found->second;
}

std::vector<pid_t> ProcessTable::pids() const {
  std::vector<pid_t> pids;
  pids.reserve(processes_.size());
  for (const auto& entry : processes_) {
    pids.push_back(entry.first);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

}  // namespace forensics
