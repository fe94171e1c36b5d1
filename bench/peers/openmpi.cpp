// Open MPI between processes that one mpirun started, over shared memory or TCP. With one reader:
// sends to receives that were posted before, each piece read as soon as it has come. With several:
// MPI_Bcast.

#include <mpi.h>
#include <unistd.h>

#include <climits>

#include "peer.hpp"

namespace gantry::bench {
namespace {

constexpr int kRequest = 1;  // tags
constexpr int kReply = 2;

Result<void> checked(const char* what, int status) {
  if (status == MPI_SUCCESS) return {};
  return Unexpected(peer_error(what, "failed"));
}

/// MPI from here on; ended with this.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Case& what) {
    if (what.largest_segment() > INT_MAX)
      return Unexpected(peer_error("MPI", "counts are ints: no piece above 2 GiB"));
    if (auto begun = checked("MPI_Init", MPI_Init(nullptr, nullptr)); !begun)
      return Unexpected(begun.error());
    return std::make_unique<Session>();
  }
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { MPI_Finalize(); }
};

int count_of(ConstByteSpan bytes) {
  return static_cast<int>(bytes.size());
}

class MpiRequester final : public Requester {
 public:
  MpiRequester(std::unique_ptr<Session> session, Case what)
      : session_(std::move(session)), what_(std::move(what)), pending_(what_.in_flight) {}

  Result<void> send(const Payload& payload) override {
    auto& pending = pending_[sent_++ % pending_.size()];
    for (const ConstByteSpan part : parts_of(what_, payload.bytes()))
      if (auto sent = send_part(part, pending); !sent) return sent;
    return {};
  }

  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    const int from = static_cast<int>(reader_) + 1;
    MPI_Recv(&sum, 1, MPI_UINT64_T, from, kReply, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    reader_ = (reader_ + 1) % what_.readers;
    if (reader_ != 0) return sum;
    auto& pending = pending_[answered_++ % pending_.size()];
    MPI_Waitall(static_cast<int>(pending.size()), pending.data(), MPI_STATUSES_IGNORE);
    pending.clear();
    return sum;
  }

  std::vector<int> helpers() const override { return {::getppid()}; }  // mpirun

 private:
  Result<void> send_part(ConstByteSpan part, std::vector<MPI_Request>& pending) {
    auto* const data = const_cast<std::byte*>(part.data());
    if (what_.readers > 1)
      return checked("MPI_Bcast", MPI_Bcast(data, count_of(part), MPI_BYTE, 0, MPI_COMM_WORLD));
    if (what_.in_flight == 1)
      return checked("MPI_Send",
                     MPI_Send(data, count_of(part), MPI_BYTE, 1, kRequest, MPI_COMM_WORLD));
    MPI_Request& request = pending.emplace_back();
    return checked("MPI_Isend", MPI_Isend(data, count_of(part), MPI_BYTE, 1, kRequest,
                                          MPI_COMM_WORLD, &request));
  }

  std::unique_ptr<Session> session_;
  Case what_;
  std::vector<std::vector<MPI_Request>> pending_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  unsigned reader_ = 0;  // whose answer is next
};

class MpiResponder final : public Responder {
 public:
  MpiResponder(std::unique_ptr<Session> session, Case what)
      : session_(std::move(session)), what_(std::move(what)), places_(what_) {
    posted_.resize(places_.count());
    for (std::uint64_t message = 0; what_.readers == 1 && message < places_.count(); ++message)
      post(message);
  }
  MpiResponder(const MpiResponder&) = delete;
  MpiResponder& operator=(const MpiResponder&) = delete;
  ~MpiResponder() override {
    for (auto& requests : posted_)
      for (MPI_Request& request : requests) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
  }

  Result<std::uint64_t> receive() override {
    const std::uint64_t message = received_++;
    std::uint64_t sum = 0;
    const auto parts = parts_of(what_, places_.at(message));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (auto come = take_part(message, i, parts[i]); !come) return Unexpected(come.error());
      sum += checksum(parts[i]);
    }
    if (what_.readers == 1) post(message + places_.count());
    return sum;
  }

  Result<void> reply(std::uint64_t sum) override {
    return checked("MPI_Send", MPI_Send(&sum, 1, MPI_UINT64_T, 0, kReply, MPI_COMM_WORLD));
  }

 private:
  void post(std::uint64_t message) {
    auto& requests = posted_[message % posted_.size()];
    requests.clear();
    for (const ConstByteSpan part : parts_of(what_, places_.at(message)))
      MPI_Irecv(const_cast<std::byte*>(part.data()), count_of(part), MPI_BYTE, 0, kRequest,
                MPI_COMM_WORLD, &requests.emplace_back());
  }

  Result<void> take_part(std::uint64_t message, std::size_t i, ConstByteSpan part) {
    if (what_.readers == 1)
      return checked("MPI_Wait",
                     MPI_Wait(&posted_[message % posted_.size()][i], MPI_STATUS_IGNORE));
    auto* const data = const_cast<std::byte*>(part.data());
    return checked("MPI_Bcast", MPI_Bcast(data, count_of(part), MPI_BYTE, 0, MPI_COMM_WORLD));
  }

  std::unique_ptr<Session> session_;
  Case what_;
  Places places_;
  std::vector<std::vector<MPI_Request>> posted_;
  std::uint64_t received_ = 0;
};

Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) {
  auto session = Session::open(told.what);
  if (!session) return Unexpected(session.error());
  return std::make_unique<MpiRequester>(std::move(*session), told.what);
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) {
  auto session = Session::open(told.what);
  if (!session) return Unexpected(session.error());
  return std::make_unique<MpiResponder>(std::move(*session), told.what);
}

Result<std::string> version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view said(text);  // "Open MPI v4.1.4, package: ..."
  return version_text(said.substr(0, said.find_first_of(",\n")),
                      reinterpret_cast<const void*>(&MPI_Get_library_version));
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
