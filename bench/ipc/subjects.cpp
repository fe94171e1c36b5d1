#include "subjects.hpp"

namespace gantry::bench {

std::vector<SubjectKind> own_subjects(bool with_polled) {
  std::vector<SubjectKind> all = gantry_subjects();
  for (const auto& make : {cpu_sync, cpu_sync_fresh, pipe_stream, unix_socket})
    all.push_back(make());
  if (with_polled) {
    all.push_back(pipe_stream_polled());
    all.push_back(unix_socket_polled());
  }
  for (SubjectKind& typed : typed_subjects()) all.push_back(std::move(typed));
  for (SubjectKind& decides : decision_subjects()) all.push_back(std::move(decides));
  all.push_back(ping_pong());
  all.push_back(two_lines());
  for (SubjectKind& limit : chunk_limits()) all.push_back(std::move(limit));
  all.push_back(single_copy());
  return all;
}

}  // namespace gantry::bench
