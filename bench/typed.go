package bench

import (
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// The measurements of derived datatypes. The layouts are those of testdata/peer.c.

const (
	doubleBytes = 8
	columns     = 32 // of the matrix of vector
	depth       = 32 // of the inside of the array of subarray, in the direction of the normal of the face
	mixedData   = 32 // bytes of a mixed that are data; it has 40
)

// mixed is the element of struct: fields of mixed types, with padding.
type mixed struct {
	kind  int8
	codes [5]int16
	place [2]float64
	flag  int8
	count int32
}

// message is what a rank sends and receives in a measurement of a derived datatype.
type message interface {
	views() (send, recv mpi.View)
	fill(from, turn int)          // writes what rank from sends into the send buffer, and clears the receive buffer
	wrong(from, turn int) (n int) // counts the elements that differ from what rank from has sent, and changed ones outside
	spoil()                       // changes an element that was received
}

// typedPingPong sends one message of a derived datatype there and one back.
func (r *runner) typedPingPong(skip, n int) (time.Duration, error) {
	send, recv := r.message.views()
	var start time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start = r.startClock()
		}
		if r.rank == 0 {
			if err := r.comm.Send(send, 1, tag); err != nil {
				return 0, err
			}
			if _, err := r.comm.Recv(recv, 1, tag); err != nil {
				return 0, err
			}
		} else {
			if _, err := r.comm.Recv(recv, 0, tag); err != nil {
				return 0, err
			}
			if err := r.comm.Send(send, 0, tag); err != nil {
				return 0, err
			}
		}
		r.markIteration(i)
	}
	return r.now() - start, nil
}

// doubles are single doubles in larger arrays.
type doubles struct {
	send, recv         []float64
	sendView, recvView mpi.View
	n                  int
	index              func(i int) int // of element i in an array
}

// untouched is the value in receive buffers before a message arrives.
const untouched = -1

func newDoubles(n, memory int, index func(i int) int, view func(x []float64) mpi.View) *doubles {
	d := &doubles{send: pageAligned[float64](memory, 1), recv: pageAligned[float64](memory, untouched), n: n, index: index}
	d.sendView, d.recvView = view(d.send), view(d.recv)
	return d
}

func (d *doubles) views() (send, recv mpi.View) { return d.sendView, d.recvView }

func patternDouble(from, turn, i int) float64 { return float64(from*1_000_000 + turn*1000 + i%997) }

func (d *doubles) fill(from, turn int) {
	for i := range d.n {
		d.send[d.index(i)] = patternDouble(from, turn, i)
		d.recv[d.index(i)] = untouched
	}
}

func (d *doubles) wrong(from, turn int) (n int) {
	for i := range d.n {
		at := d.index(i)
		if d.recv[at] != patternDouble(from, turn, i) {
			n++
		}
		if d.recv[at+1] != untouched {
			n++
		}
	}
	return n
}

func (d *doubles) spoil() { d.recv[d.index(0)]++ }

// columnMessage is the first column of a matrix.
func columnMessage(size int) (message, error) {
	n := size / doubleBytes
	return newDoubles(n, n*columns, func(i int) int { return i * columns },
		func(x []float64) mpi.View { return mpi.ArrayOf(x, n, columns).Col(0) }), nil
}

func columnMemory(size int) int { return size * columns }

// faceShape returns the dimensions of a face: rows is the largest power of two that divides the number of elements, and is not
// larger than the other dimension.
func faceShape(size int) (rows, cols int) {
	n := size / doubleBytes
	for rows = 1; n%(2*rows) == 0 && 4*rows*rows <= n; {
		rows *= 2
	}
	return rows, n / rows
}

// faceMessage is a face of the inside of an array with three dimensions, normal to the last one. One layer around the inside
// belongs to neighbors.
func faceMessage(size int) (message, error) {
	rows, cols := faceShape(size)
	index := func(i int) int { return ((i/cols+1)*(cols+2)+i%cols+1)*(depth+2) + 1 }
	return newDoubles(rows*cols, faceMemory(size)/doubleBytes, index, func(x []float64) mpi.View {
		return mpi.ArrayOf(x, rows+2, cols+2, depth+2).Sub([]int{1, 1, 1}, []int{rows, cols, 1})
	}), nil
}

func faceMemory(size int) int {
	rows, cols := faceShape(size)
	return (rows + 2) * (cols + 2) * (depth + 2) * doubleBytes
}

// structs is an array of mixed.
type structs struct {
	send, recv         []mixed
	sendView, recvView mpi.View
}

func structsMessage(size int) (message, error) {
	n := size / mixedData
	t, err := mixedType()
	if err != nil {
		return nil, err
	}
	s := &structs{send: make([]mixed, n), recv: make([]mixed, n)}
	s.sendView, s.recvView = mpi.ViewAs(s.send, 0, t, n), mpi.ViewAs(s.recv, 0, t, n)
	return s, nil
}

func structsMemory(size int) int { return size / mixedData * mixedExtent }

const mixedExtent = 40

// mixedType makes the datatype of mixed as a program in C does.
func mixedType() (*mpi.Datatype, error) {
	types := make([]*mpi.Datatype, 0, 5)
	for _, name := range []string{"MPI_INT8_T", "MPI_INT16_T", "MPI_DOUBLE", "MPI_INT8_T", "MPI_INT32_T"} {
		t, err := mpi.TypeNamed(name)
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	fields, err := mpi.TypeStruct([]int{1, 5, 2, 1, 1}, []int{0, 2, 16, 32, 36}, types)
	if err != nil {
		return nil, err
	}
	t, err := fields.Resized(0, mixedExtent)
	if err != nil {
		return nil, err
	}
	return t, t.Commit()
}

func (s *structs) views() (send, recv mpi.View) { return s.sendView, s.recvView }

func patternMixed(from, turn, i int) (m mixed) {
	k := from*50 + turn*7 + i
	m.kind, m.flag, m.count = int8(k), int8(k+1), int32(k*101)
	for j := range m.codes {
		m.codes[j] = int16(k + j)
	}
	m.place = [2]float64{float64(k), float64(-k)}
	return m
}

func (s *structs) fill(from, turn int) {
	clear(s.recv)
	for i := range s.send {
		s.send[i] = patternMixed(from, turn, i)
	}
}

func (s *structs) wrong(from, turn int) (n int) {
	for i, m := range s.recv {
		if m != patternMixed(from, turn, i) {
			n++
		}
	}
	return n
}

func (s *structs) spoil() { s.recv[0].count++ }
