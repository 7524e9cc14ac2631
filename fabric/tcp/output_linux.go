package tcp

// maxControl is the most that is kept of frames that are neither messages nor answers: the requests of all Reads, and a few
// others.
const maxControl = 2*maxReads*(headerBytes+requestBytes) + headerBytes + maxAddressBytes

// output is what the kernel has not taken yet, in this order: head, body, kept, with control before
// position controlAt of kept.
type output struct {
	head      []byte   // rest of the headers of the frame that body belongs to, or of a push
	body      []byte   // rest of registered memory that the peer reads, or of a push
	bodyKey   uint64   // key of its region
	kept      retained // messages, and the shutdown
	control   []byte   // frames of other kinds
	controlAt uint64
	deferred  bool                                            // SendLater has left the end of kept unsent
	headBuf   [2*headerBytes + pushHeader + requestBytes]byte // memory of head
}

// empty reports whether there is nothing.
func (o *output) empty() bool {
	return o.kept.sent == o.kept.end && len(o.body) == 0 && len(o.head) == 0 && len(o.control) == 0
}

// setHead sets head to a copy of b.
func (o *output) setHead(b []byte) { o.head = o.headBuf[:copy(o.headBuf[:], b)] }

// addControl appends a frame that is not sent again if the connection breaks, or the rest of it. It
// goes behind the messages that are there now.
func (o *output) addControl(b []byte) {
	if len(o.control) == 0 {
		o.controlAt = o.kept.end
	}
	o.control = append(o.control, b...)
}

// limit returns the position of kept up to which messages come before control.
func (o *output) limit() uint64 {
	if len(o.control) > 0 {
		return o.controlAt
	}
	return o.kept.end
}

// next returns what is to be sent next.
func (o *output) next() (parts [maxParts][]byte) {
	parts[0], parts[1], parts[4] = o.head, o.body, o.control
	limit := o.limit()
	parts[2] = o.kept.part(o.kept.sent, limit)
	parts[3] = o.kept.part(o.kept.sent+uint64(len(parts[2])), limit)
	return parts
}

// advance drops the first n bytes, in the order of next.
func (o *output) advance(n int) {
	k := min(n, len(o.head))
	o.head = o.head[k:]
	n -= k
	k = min(n, len(o.body))
	o.body = o.body[k:]
	n -= k
	k = min(n, int(o.limit()-o.kept.sent))
	o.kept.sent += uint64(k)
	if n -= k; n > 0 {
		o.control = o.control[n:]
	}
	if len(o.control) == 0 {
		o.control = nil
	}
}

// dropUnkept drops what is not sent again over another connection.
func (o *output) dropUnkept() { o.head, o.body, o.control = nil, nil, nil }
