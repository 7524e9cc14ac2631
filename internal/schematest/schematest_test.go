package schematest

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Base is embedded.
type Base struct {
	Base int `json:"id"` // has the name of the type that is embedded
}

// all has fields of all forms.
type all struct {
	Base
	Name  string            `json:"name,omitempty"`
	Began time.Time         `json:"began"`
	Addr  netip.Addr        `json:"addr"`
	Near  *Base             `json:"near"`
	Far   *Base             `json:"far,omitempty"`
	List  []Base            `json:"list"`
	Sizes map[string]uint64 `json:"sizes,omitempty"`
	Next  []all             `json:"next,omitempty"`
	Plain float64
	Err   error `json:"-"`
	own   int
}

func TestOf(t *testing.T) {
	text, err := Of("x", "a title", []all{{own: 1}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "a title",
		"$id": "https://github.com/ibrun/ibrun/blob/main/docs/schemas/x.json",
		"type": "array", "items": {"$ref": "#/$defs/all"}, "$defs": {
			"Base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": false},
			"all": {"type": "object", "additionalProperties": false, "required": ["id", "began", "addr", "near", "list", "Plain"],
				"properties": {
					"id": {"type": "integer"}, "name": {"type": "string"}, "began": {"type": "string", "format": "date-time"},
					"addr": {"type": "string"}, "near": {"oneOf": [{"$ref": "#/$defs/Base"}, {"type": "null"}]},
					"far": {"$ref": "#/$defs/Base"}, "list": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Base"}},
					"sizes": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
					"next": {"type": "array", "items": {"$ref": "#/$defs/all"}}, "Plain": {"type": "number"}}}}}`
	var x, y any
	if err := json.Unmarshal(text, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &y); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("got %s", text)
	}
}

// Types whose JSON the package does not know are errors.
func TestNoSchema(t *testing.T) {
	for want, x := range map[string]any{
		"MarshalJSON":             []json.RawMessage{},
		"base 64":                 [][]byte{},
		"keys":                    map[int]string{},
		"has no schema":           []any{},
		"form that has no schema": quoted{},
		"not unique":              struct{ A int }{},
	} {
		if _, err := Of("x", "", x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: got %v, want an error with %q", x, err, want)
		}
	}
}

// quoted has a field that is written as a string.
type quoted struct {
	A int `json:"a,string"`
}
