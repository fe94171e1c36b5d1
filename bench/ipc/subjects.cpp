#include "subjects.hpp"

namespace gantry::bench {

std::vector<SubjectKind> own_subjects(bool with_polled) {
  std::vector<SubjectKind> all = {gantry_sync(),    gantry_loan(), cpu_sync(),
                                  cpu_sync_fresh(), pipe_stream(), unix_socket()};
  if (with_polled) {
    all.push_back(pipe_stream_polled());
    all.push_back(unix_socket_polled());
  }
  all.push_back(ping_pong());
  all.push_back(single_copy());
  return all;
}

}  // namespace gantry::bench
