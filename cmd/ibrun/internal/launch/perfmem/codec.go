package perfmem

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"github.com/ibrun/ibrun/perf"
)

// packPage makes a page short enough to travel: most of it is zero. A page that nobody has written is nil.
func packPage(memory []byte) ([]byte, error) {
	if _, err := perf.Open(memory); errors.Is(err, perf.ErrEmpty) {
		return nil, nil
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(memory)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DecodePage reads what packPage made on another node.
func DecodePage(packed []byte) (*perf.Snapshot, error) {
	memory := make([]byte, perf.PageBytes)
	r := flate.NewReader(bytes.NewReader(packed))
	if _, err := io.ReadFull(r, memory); err != nil {
		return nil, fmt.Errorf("read the page of a rank: %w", err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, fmt.Errorf("read the page of a rank: it is longer than %d bytes, or broken: %w", perf.PageBytes, err)
	}
	page, err := perf.Open(memory)
	if err != nil {
		return nil, err
	}
	return page.Snapshot()
}
