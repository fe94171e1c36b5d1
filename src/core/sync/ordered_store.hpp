#pragma once  // sync/ordered_store.hpp: a store before which nothing waits, with full order behind
              // it.

#include <atomic>

namespace gantry {

/// For a word that somebody polls, and that is one half of a sleep handshake (wait_flag.hpp): what
/// was written before is visible with it, and what this thread reads afterwards is ordered behind
/// it in the single order of all seq_cst operations and fences. A store with seq_cst alone would
/// do; but on x86 that is an exchange, which begins only when the stores before it have left, and
/// meanwhile the poller takes their line away.
template <class Word>
void store_then_order(std::atomic<Word>& word, Word value) noexcept {
#if defined(__SANITIZE_THREAD__)  // it does not know fences
  word.store(value, std::memory_order_seq_cst);
#else
  word.store(value, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace gantry
