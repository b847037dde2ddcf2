#include "comm/self/self_communicator.h"

#include "comm/box_bytes.h"
#include "comm/pieces.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

void copy_pieces(const std::vector<Piece>& pieces, DType dtype) {
  for (const auto& piece : pieces) copy_bytes(piece.out, piece.in, piece.count * size_of(dtype));
}

}  // namespace

void SelfCommunicator::all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce) { copy_pieces(pieces, dtype); }

void SelfCommunicator::reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce) {
  copy_pieces(pieces, dtype);
}

void SelfCommunicator::all_gather(const std::vector<Piece>& pieces, DType dtype) { copy_pieces(pieces, dtype); }

void SelfCommunicator::all_to_all(const std::vector<Piece>& pieces, DType dtype) { copy_pieces(pieces, dtype); }

void SelfCommunicator::box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                                    const std::vector<BoxTransfer>& receives, DType dtype) {
  constexpr std::int64_t kPart = 64 << 10;
  const BoxBytes from(sends, 0, size_of(dtype));
  const BoxBytes to(receives, 0, size_of(dtype));
  const auto length = from.length();
  TESSERA_CHECK(to.length() == length, "a box exchange sends {} bytes and receives {}", length, to.length());
  row_.resize(kPart);
  for (std::int64_t at = 0; at < length; at += kPart) {
    const auto end = std::min(length, at + kPart);
    from.pack(in, at, end, row_.data());
    to.unpack(out, at, end, row_.data());
  }
}

}  // namespace tessera::comm
