package perfmem

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"github.com/ibrun/ibrun/perf"
)

// packPage compresses a page for sending it to another node: most of a page is zero. It returns nil for a page that no rank has
// written.
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

// DecodePage parses the output of [Memory.Pack] on another node.
func DecodePage(packed []byte) (*perf.Snapshot, error) {
	memory := make([]byte, perf.PageBytes)
	r := flate.NewReader(bytes.NewReader(packed))
	if _, err := io.ReadFull(r, memory); err != nil {
		return nil, fmt.Errorf("read the page of a rank: %w", err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, fmt.Errorf("read the page of a rank: it is longer than %d bytes, or damaged: %w", perf.PageBytes, err)
	}
	page, err := perf.Open(memory)
	if err != nil {
		return nil, err
	}
	return page.Snapshot()
}
