package perf

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// Names of communicators.
const (
	// Names is the number of different names that a page or a trace holds. Later ones are not shown.
	Names = 63
	// NameBytes is the maximum length of a name in bytes; longer ones are cut.
	NameBytes = 8 * nameWords

	nameWords    = 16
	nameRowBytes = 8 + NameBytes
)

// nameRow is a name. It does not change once it is written: communicators with the same name share it.
type nameRow struct {
	length uint64 // in bytes, stored last; 0: not in use
	text   [nameWords]uint64
}

// nameTable is the table of the names of a page or a trace. Operations refer to a name by number, from 1.
type nameTable [Names]nameRow

func (k *nameTable) write(i int, text string) {
	var b [NameBytes]byte
	n := copy(b[:], text)
	for w := range k[i].text {
		set(&k[i].text[w], binary.NativeEndian.Uint64(b[8*w:]))
	}
	atomic.StoreUint64(&k[i].length, uint64(n))
}

// read returns the name with a number, or "".
func (k *nameTable) read(number uint64) string {
	if number-1 >= Names {
		return ""
	}
	row := &k[number-1]
	n := atomic.LoadUint64(&row.length)
	if n > NameBytes {
		return ""
	}
	var b [NameBytes]byte
	for w := range row.text {
		binary.NativeEndian.PutUint64(b[8*w:], atomic.LoadUint64(&row.text[w]))
	}
	return string(b[:n])
}

// all returns the names in the order in which they were given.
func (k *nameTable) all() (all []string) {
	for i := range uint64(Names) {
		if text := k.read(i + 1); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// readTraceName returns the name with a number from the bytes of a trace, which has a complete head.
func readTraceName(head []byte, number uint64) string {
	if number-1 >= Names {
		return ""
	}
	row := head[traceFixedHead+int(number-1)*nameRowBytes:][:nameRowBytes]
	n := binary.NativeEndian.Uint64(row)
	if n > NameBytes {
		return ""
	}
	return string(row[8 : 8+n])
}

// Name returns the number of a communicator's name for SetName, from 1. It is 0 for the empty name, and if there are too many
// names.
func (r *Recorder) Name(text string) uint8 {
	if r == nil || text == "" {
		return 0
	}
	text = text[:min(len(text), NameBytes)]
	i := slices.Index(r.names, text)
	if i < 0 {
		if len(r.names) == Names {
			return 0
		}
		i, r.names = len(r.names), append(r.names, text)
		r.page.names.write(i, text)
		if r.trace != nil {
			r.trace.l.names.write(i, text)
		}
	}
	return uint8(i + 1)
}

// SetName sets the name of the communicator of the operation that is entered next or, in a trace, that ends next. Its number is a
// result of Name; 0 is not a name.
func (r *Recorder) SetName(number uint8) {
	if r != nil {
		r.name = number
	}
}
