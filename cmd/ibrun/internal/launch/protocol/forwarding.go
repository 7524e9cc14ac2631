package protocol

// If the coordinator has started the other nodes, it writes their output to its own standard output
// and error, and forwards its standard input to rank 0. The limits below keep both bounded: the
// sender waits until the receiver has taken what was sent before.
const (
	// MaxOutputChunk is how many bytes an EventOutput has at most.
	MaxOutputChunk = 32 << 10
	// OutputWindow is how many bytes of a stream the coordinator has not acknowledged at most.
	OutputWindow = 1 << 20
	// MaxInputChunk is how many bytes an Order.Input has at most.
	MaxInputChunk = 32 << 10
	// InputWindow is how many bytes of input rank 0 has not read at most. From a terminal, only one chunk is read ahead.
	InputWindow = 256 << 10
)

// Forwarding describes where forwarded output goes.
type Forwarding struct {
	// Terminals says whether the coordinator's standard output, and its standard error, are
	// terminals.
	Terminals [2]bool
}

// OutputAck tells a node what became of its output.
type OutputAck struct {
	Stream int  // of EventOutput
	Bytes  int  `json:",omitempty"` // so many more were taken
	Closed bool `json:",omitempty"` // the coordinator cannot write this stream any more
}

// Input is a part of the standard input of rank 0.
type Input struct {
	Data []byte `json:",omitempty"`
	End  bool   `json:",omitempty"` // of the input; without Data
}

// InputTaken tells the coordinator what became of the standard input.
type InputTaken struct {
	Bytes  int  `json:",omitempty"` // rank 0 has read so many more
	Closed bool `json:",omitempty"` // rank 0 reads no more
}
