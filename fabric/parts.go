package fabric

// Data of a message may be in many blocks of memory. Its packed bytes are those of all blocks in order, without gaps. Whoever
// has such data names it by an interface, so that a transport takes each byte from where it is, or stores it there, without
// another copy.

// Block is a contiguous block of the memory of a [Source] or [Sink]: Len bytes at an offset that only its owner interprets.
type Block struct{ Off, Len int64 }

// Parts are the blocks of memory of a [Source] or [Sink].
type Parts interface {
	// Blocks fills out with the blocks that hold the packed bytes from byte from up to byte to. It returns how many these are,
	// and the byte at which the next call continues: to, unless out was too short.
	Blocks(out []Block, from, to int64) (n int, next int64)
	// Slice returns the memory of a block.
	Slice(Block) []byte
	// BlockLen returns the mean length of the blocks in bytes. Short blocks are better copied than listed.
	BlockLen() int64
}

// Source is data to be sent that may be in several blocks of memory.
type Source interface {
	Parts
	// Pack copies packed bytes to dst, beginning with byte from. It returns how many: len(dst), unless the data ends before.
	Pack(dst []byte, from int64) int
}

// Sink is memory for received data that may be in several blocks.
type Sink interface {
	Parts
	// Unpack copies packed bytes from src to the memory, beginning with byte from. It returns how many: len(src), unless the
	// memory ends before.
	Unpack(src []byte, from int64) int
}

// Gatherer is an optional interface of an endpoint that sends data from where it is. Callers find out by type assertion, once,
// when they connect.
type Gatherer interface {
	// SendFrom is Send with a payload of n packed bytes of src, beginning with byte from. src has at least from+n bytes, and is
	// not used after SendFrom has returned. Results and limits are those of Send.
	SendFrom(header []byte, src Source, from int64, n int) error
}

// Scatterer is an optional interface of an endpoint whose Read stores data where it belongs. Callers find out by type assertion,
// once, when they connect.
type Scatterer interface {
	// ReadTo is Read of n bytes, of which the first becomes byte from of dst. local is the registration that covers all blocks
	// of dst; it is ignored if Caps().Direct is set. dst must be valid until the read is done. Results are those of Read. An
	// error that wraps ErrNotSupported has no further effect: the caller moves the bytes in another way.
	ReadTo(dst Sink, from int64, n int, local Region, src RemoteKey, token uint64) (done bool, err error)
}
