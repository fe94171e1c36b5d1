#pragma once  // bench/support/subject.hpp: the seam between the harness and what it compares.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "payload.hpp"

namespace gantry::bench {

/// The asking end of a subject, in a process of its own.
class Requester {
 public:
  virtual ~Requester() = default;
  /// What is done before each trip and is not part of it.
  virtual Result<void> prepare(const Payload&) { return {}; }
  /// Timed: hands the payload over and returns the checksum that the other side read.
  virtual Result<std::uint64_t> round_trip(const Payload& payload) = 0;
};

/// The answering end of a subject, in a process of its own.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Waits for one request, reads it whole and answers with its checksum.
  virtual Result<void> serve() = 0;
};

/// What two ends share before they are forked: it is made in the parent, each end is opened in
/// its child, and the parent drops it then.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Result<std::unique_ptr<Requester>> open_requester() = 0;
  virtual Result<std::unique_ptr<Responder>> open_responder() = 0;
};

/// One size to run, and where its subjects may put files.
struct Case {
  std::string name;
  Bytes bytes = 0;
  std::string directory;
};

/// A way of moving a message, as the harness lists it.
struct SubjectKind {
  std::string name;
  std::function<Result<std::unique_ptr<Subject>>(const Case&)> make;
  unsigned buffers = 2;       ///< Of the message's size, in all its processes.
  bool has_responder = true;  ///< False: one process does it all.
  bool carries_bytes = true;  ///< False: only its latency means something.
};

}  // namespace gantry::bench
