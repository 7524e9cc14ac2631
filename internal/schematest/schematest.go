package schematest

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// WriteVariable names the environment variable with which Compare writes the files instead.
const WriteVariable = "IBRUN_WRITE_SCHEMAS"

// Compare compares docs/schemas/NAME.json with the schema of values of the types of these samples.
func Compare(t *testing.T, name, title string, samples ...any) {
	t.Helper()
	want, err := Of(name, title, samples...)
	if err != nil {
		t.Fatal(err)
	}
	_, here, _, _ := runtime.Caller(0)
	file := filepath.Join(filepath.Dir(here), "..", "..", "docs", "schemas", name+".json")
	if os.Getenv(WriteVariable) != "" {
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s.json is not the schema of the Go types. If a change is intended: make schemas, and a line in CHANGELOG.md", name)
	}
}

// schema is a JSON Schema, or a part of one.
type schema map[string]any

// builder collects the definitions of structs.
type builder struct {
	defs  map[string]schema
	types map[string]reflect.Type // by name in defs
}

// Of returns the JSON Schema (draft 2020-12) of what package encoding/json writes for values of the types of these samples. It
// allows no other properties.
func Of(name, title string, samples ...any) ([]byte, error) {
	b := builder{map[string]schema{}, map[string]reflect.Type{}}
	var kinds []schema
	for _, x := range samples {
		s, err := b.of(reflect.TypeOf(x), false)
		if err != nil {
			return nil, fmt.Errorf("schema of %T: %w", x, err)
		}
		kinds = append(kinds, s)
	}
	top := kinds[0]
	if len(kinds) > 1 {
		top = schema{"anyOf": kinds}
	}
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["$id"] = "https://github.com/ibrun/ibrun/blob/main/docs/schemas/" + name + ".json"
	top["title"] = title
	top["$defs"] = b.defs
	text, err := json.MarshalIndent(top, "", "  ")
	return append(text, '\n'), err
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	textType   = reflect.TypeFor[encoding.TextMarshaler]()
	customType = reflect.TypeFor[json.Marshaler]()
)

// of returns the schema of a type. nullable means that a nil slice, map or pointer is written as null.
func (b *builder) of(t reflect.Type, nullable bool) (schema, error) {
	switch {
	case t == timeType:
		return schema{"type": "string", "format": "date-time"}, nil
	case t.Implements(textType):
		return schema{"type": "string"}, nil
	case t.Implements(customType):
		return nil, fmt.Errorf("%v has a method MarshalJSON", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return schema{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}, nil
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}, nil
	case reflect.String:
		return schema{"type": "string"}, nil
	case reflect.Struct:
		return b.define(t)
	case reflect.Pointer:
		s, err := b.of(t.Elem(), false)
		if nullable {
			s = schema{"oneOf": []schema{s, {"type": "null"}}}
		}
		return s, err
	case reflect.Slice, reflect.Map:
		return b.container(t, nullable)
	}
	return nil, fmt.Errorf("%v has no schema", t)
}

// container returns the schema of a slice or of a map.
func (b *builder) container(t reflect.Type, nullable bool) (schema, error) {
	kind, inner := "array", "items"
	switch {
	case t.Kind() == reflect.Map && t.Key().Kind() != reflect.String:
		return nil, fmt.Errorf("%v has keys that are not strings", t)
	case t.Kind() == reflect.Map:
		kind, inner = "object", "additionalProperties"
	case t.Elem().Kind() == reflect.Uint8:
		return nil, fmt.Errorf("%v is written in base 64", t)
	}
	s, err := b.of(t.Elem(), true)
	if nullable {
		return schema{"type": []string{kind, "null"}, inner: s}, err
	}
	return schema{"type": kind, inner: s}, err
}

// define adds the definition of a struct, and returns a reference to it.
func (b *builder) define(t reflect.Type) (schema, error) {
	name := t.Name()
	if other := b.types[name]; name == "" || other != nil && other != t {
		return nil, fmt.Errorf("the name of struct %v is not unique", t)
	}
	ref := schema{"$ref": "#/$defs/" + name}
	if b.types[name] != nil {
		return ref, nil
	}
	b.types[name] = t
	d := schema{"type": "object", "properties": schema{}, "required": []string{}, "additionalProperties": false}
	b.defs[name] = d
	return ref, b.addFields(d, t)
}

// addFields adds the fields of a struct, and of those that it embeds, to a definition.
func (b *builder) addFields(d schema, t reflect.Type) error {
	properties := d["properties"].(schema)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			if err := b.addFields(d, f.Type); err != nil {
				return err
			}
			continue
		case tag == "-" || !f.IsExported():
			continue
		case f.Anonymous || strings.Contains(options, "string"):
			return fmt.Errorf("field %v.%s has a form that has no schema", t, f.Name)
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		s, err := b.of(f.Type, !optional)
		if err != nil {
			return fmt.Errorf("field %v.%s: %w", t, f.Name, err)
		}
		tag = cmp.Or(tag, f.Name)
		if properties[tag] != nil {
			return fmt.Errorf("%v has two fields %s", t, tag)
		}
		if properties[tag] = s; !optional {
			d["required"] = append(d["required"].([]string), tag)
		}
	}
	return nil
}
