package mux

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
)

var frames = []frame{
	{kind: kindOpen, id: 1, data: []byte{}},
	{kind: kindData, id: 1<<32 - 1, data: []byte("hello")},
	{kind: kindCredit, id: 2, data: []byte{1, 2, 3, 4}},
	{kind: kindExit, data: []byte(`{"Code":3}`)},
	{kind: kindReady, data: []byte{}},
}

func TestFrames(t *testing.T) {
	var b []byte
	for _, f := range frames {
		b = f.append(b)
	}
	r := bytes.NewReader(b)
	for _, want := range frames {
		if got, err := decode(r); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v came back, want %+v", got, err, want)
		}
	}
	if _, err := decode(r); err != io.EOF {
		t.Errorf("after the last frame: %v", err)
	}
}

func TestFramePrefixes(t *testing.T) {
	for _, f := range frames {
		b := f.append(nil)
		for n := range b {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if _, err := decode(bytes.NewReader(b[:n])); err != want {
				t.Errorf("%d bytes of %d of %+v: %v, want %v", n, len(b), f, err, want)
			}
		}
	}
}

func TestInvalidFrames(t *testing.T) {
	for name, b := range map[string][]byte{
		"kind 0":   frame{kind: 0}.append(nil),
		"kind 5":   frame{kind: kindClose + 1}.append(nil),
		"kind 255": frame{kind: 255}.append(nil),
		"4 GiB":    {byte(kindData), 0, 0, 0, 0, 255, 255, 255, 255},
	} {
		if f, err := decode(bytes.NewReader(b)); !errors.Is(err, errFrame) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, fr := range frames {
		f.Add(fr.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		fr, err := decode(r)
		if err != nil {
			return
		}
		if used := len(b) - r.Len(); !bytes.Equal(fr.append(nil), b[:used]) {
			t.Errorf("%x is read as %+v, which is written %x", b[:used], fr, fr.append(nil))
		}
	})
}

// FuzzSession gives a session the input of a broken or hostile guest. The session must not panic.
func FuzzSession(f *testing.F) {
	open := frame{kind: kindOpen, id: 2}.append(nil)
	f.Add(open)
	f.Add(frame{kind: kindData, id: 2, data: []byte("x")}.append(bytes.Clone(open)))
	f.Add(frame{kind: kindCredit, id: 2, data: []byte{255, 255, 255, 255}}.append(bytes.Clone(open)))
	f.Add(frame{kind: kindClose, id: 2}.append(bytes.Clone(open)))
	f.Add(frame{kind: kindData, id: 2, data: make([]byte, window+1)}.append(bytes.Clone(open)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := NewSession(playback{bytes.NewReader(b)}, Host)
		<-s.Done()
		for {
			st, err := s.Accept()
			if err != nil {
				return
			}
			st.Close()
			if n, err := st.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("a closed stream gave %d bytes, %v", n, err)
			}
		}
	})
}

// playback is a channel with a given input and no other end.
type playback struct{ io.Reader }

func (playback) Write(b []byte) (int, error) { return len(b), nil }
func (playback) Close() error                { return nil }
