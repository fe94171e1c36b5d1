#pragma once  // bench/peers/external.hpp: subjects whose ends are programs of their own.

#include <map>

#include "../support/process/program_guard.hpp"
#include "../support/trips/assignment.hpp"
#include "built.hpp"

namespace gantry::bench {

/// A socket of that type (SOCK_STREAM, SOCK_SEQPACKET) that waits at `path` for so many.
[[nodiscard]] Result<Descriptor> listen_at(const std::string& path, int type, unsigned most);

/// Each end becomes `program`, told `variant`. A socket pair connects the requester to each reader.
class External : public Subject {
 public:
  [[nodiscard]] static Result<std::unique_ptr<External>> make(std::string program,
                                                              std::string variant,
                                                              const Case& what);

  Result<std::unique_ptr<Requester>> open_requester() override;
  Result<std::unique_ptr<Responder>> open_responder(int reader) override;
  Result<void> become(const Post& post, int link) override;
  [[nodiscard]] std::shared_ptr<void> company() const override { return company_; }

  /// Kept as long as the ends live; `helper` is the process whose CPU time counts.
  void accompany(std::shared_ptr<void> company, int helper);
  /// Words before those of the requester's own: valgrind and the like.
  void wrap(std::vector<std::string> words) { wrapper_ = std::move(words); }

 private:
  struct Pair {
    Descriptor requester;
    Descriptor responder;
  };
  External() = default;

  std::string program_;
  std::vector<std::string> wrapper_;
  Assignment told_;
  std::vector<Pair> pairs_;
  std::shared_ptr<void> company_;
};

}  // namespace gantry::bench
