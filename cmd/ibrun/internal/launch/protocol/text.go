package protocol

import (
	"encoding/json"
)

// Text is a string of any bytes, such as a path. A string in JSON is text of Unicode, and the encoder replaces other bytes, so it
// is encoded as a slice of bytes.
type Text string

// MarshalJSON encodes the bytes.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *Text) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*t = Text(b)
	return err
}

// Words are strings of any bytes, such as arguments and variables of the environment. They are encoded as [Text] is.
type Words []string

// MarshalJSON encodes the bytes of each.
func (w Words) MarshalJSON() ([]byte, error) {
	var list [][]byte
	for _, s := range w {
		list = append(list, []byte(s))
	}
	return json.Marshal(list)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (w *Words) UnmarshalJSON(text []byte) error {
	var list [][]byte
	err := json.Unmarshal(text, &list)
	*w = nil
	for _, b := range list {
		*w = append(*w, string(b))
	}
	return err
}
