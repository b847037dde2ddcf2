#include "comm/mpi/shared_window.h"

#include <algorithm>
#include <cstring>
#include <sys/statvfs.h>
#include <utility>

#include "comm/host.h"
#include "core/error.h"
#include "core/text.h"

namespace tessera::comm {
namespace {

constexpr const char* kDirectory = "/dev/shm";

/// The window would be made all the same and a write to it would end the process with SIGBUS: so look first.
void require_space(MPI_Comm node, std::int64_t own_bytes, const std::string& what) {
  std::int64_t needed = 0;
  std::int64_t free_bytes = -1;  // unknown
  int rank = 0;
  check(MPI_Comm_rank(node, &rank), "MPI_Comm_rank");
  check(MPI_Allreduce(&own_bytes, &needed, 1, MPI_INT64_T, MPI_SUM, node), "MPI_Allreduce");
  struct statvfs space = {};
  if (rank == 0 && statvfs(kDirectory, &space) == 0) {
    free_bytes = static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize);
  }
  check(MPI_Bcast(&free_bytes, 1, MPI_INT64_T, 0, node), "MPI_Bcast");
  if (free_bytes < 0 || needed <= free_bytes) return;
  fail(ExitCode::kConfig,
       "{} has {} of shared memory left in {}, and {} needs {} for the ranks of this node: give a container more "
       "(docker run "
       "--shm-size={}m), or mount a larger tmpfs there",
       host_name(), human_bytes(static_cast<double>(free_bytes)), kDirectory, what,
       human_bytes(static_cast<double>(needed)), std::max<std::int64_t>(1024, (2 * needed >> 20) + 64));
}

}  // namespace

SharedWindow::SharedWindow(MPI_Comm node, std::int64_t own_bytes, const std::string& what) {
  constexpr std::int64_t kPage = 4096;
  const auto bytes = (std::max<std::int64_t>(own_bytes, 1) + kPage - 1) / kPage * kPage;
  require_space(node, bytes, what);
  MPI_Info info = MPI_INFO_NULL;
  check(MPI_Info_create(&info), "MPI_Info_create");
  check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");  // each part starts on a page
  void* own = nullptr;
  check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, info, node, &own, &window_),
        "MPI_Win_allocate_shared");
  check(MPI_Info_free(&info), "MPI_Info_free");
  std::memset(own, 0, static_cast<std::size_t>(bytes));  // its pages go to the owner's memory
  int ranks = 0;
  check(MPI_Comm_size(node, &ranks), "MPI_Comm_size");
  for (int rank = 0; rank < ranks; ++rank) {
    MPI_Aint size = 0;
    int unit = 0;
    void* base = nullptr;
    check(MPI_Win_shared_query(window_, rank, &size, &unit, &base), "MPI_Win_shared_query");
    data_.push_back(static_cast<std::byte*>(base));
  }
  check(MPI_Barrier(node), "MPI_Barrier");  // all parts are zero
}

SharedWindow& SharedWindow::operator=(SharedWindow&& other) noexcept {
  swap(other);
  return *this;
}

void SharedWindow::swap(SharedWindow& other) noexcept {
  std::swap(window_, other.window_);
  std::swap(data_, other.data_);
}

void SharedWindow::free() {
  data_.clear();
  if (window_ != MPI_WIN_NULL) check(MPI_Win_free(&window_), "MPI_Win_free");
}

}  // namespace tessera::comm
