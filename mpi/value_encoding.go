package mpi

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"fmt"
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// valueForm is how values of a type are encoded.
type valueForm uint8

const (
	formPlain  valueForm = iota // packed elements: one
	formString                  // the bytes of a string
	formSlice                   // packed elements: those of a slice
	formBinary                  // MarshalBinary
	formGob
)

// formOf returns how values of a type are encoded, and the datatype of the elements if they are.
func formOf(rt reflect.Type) (valueForm, *datatype.Type) {
	if elem, err := core.ElementsOf(rt); err == nil {
		return formPlain, elem
	}
	switch rt.Kind() {
	case reflect.String:
		return formString, datatype.OfKind(datatype.Uint8)
	case reflect.Slice:
		// The length of a slice of elements without data cannot be told from that of the message.
		if elem, err := core.ElementsOf(rt.Elem()); err == nil && elem.Size() > 0 {
			return formSlice, elem
		}
	}
	marshals := rt.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) ||
		reflect.PointerTo(rt).Implements(reflect.TypeFor[encoding.BinaryMarshaler]())
	if marshals && binaryTarget(rt) != nil {
		return formBinary, nil
	}
	return formGob, nil
}

// binaryTarget returns a new value of a type that UnmarshalBinary fills: a pointer to it, or it if it is a pointer. It is nil if
// there is no such method.
func binaryTarget(rt reflect.Type) *reflect.Value {
	target := reflect.New(rt)
	if rt.Kind() == reflect.Pointer {
		target = reflect.New(rt.Elem())
	}
	if !target.Type().Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]()) {
		return nil
	}
	return &target
}

// kindOfValue returns the kind of the elements by which checked calls compare the two sides.
func kindOfValue(rt reflect.Type) datatype.Kind {
	if _, elem := formOf(rt); elem != nil && elem.Kind() != 0 {
		return elem.Kind()
	}
	return datatype.Byte
}

// encodeValue returns a value as bytes, and their kind.
func encodeValue[T any](op string, v T) (b []byte, kind datatype.Kind, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, valueError(op, fmt.Errorf("encode %T: panic: %v", v, p))
		}
	}()
	rt := reflect.TypeFor[T]()
	kind = kindOfValue(rt)
	switch form, elem := formOf(rt); form {
	case formPlain:
		b, err = Pack(nil, ViewOf([]T{v}))
		return b, kind, err
	case formString:
		return []byte(reflect.ValueOf(v).String()), kind, nil
	case formSlice:
		x := reflect.ValueOf(v)
		b, err = Pack(nil, newView(op, sliceMemory(x), elem, 0, x.Len()))
		return b, kind, err
	case formBinary:
		m, ok := any(v).(encoding.BinaryMarshaler)
		if !ok {
			m = any(&v).(encoding.BinaryMarshaler)
		}
		b, err = m.MarshalBinary()
	default:
		var out bytes.Buffer
		var from any = &v // which keeps an interface
		if rt.Kind() == reflect.Pointer {
			from = v
		}
		err = gob.NewEncoder(&out).Encode(from)
		b = out.Bytes()
	}
	if err != nil {
		return nil, kind, valueError(op, fmt.Errorf("encode %T: %w", v, err))
	}
	return b, kind, nil
}

// receivedValue is decodeValue for a call on c.
func receivedValue[T any](c *Comm, op string, b []byte) (T, error) {
	v, err := decodeValue[T](op, b)
	return v, c.callError(op, err)
}

// decodeValue returns the value that encodeValue has made b of.
func decodeValue[T any](op string, b []byte) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = *new(T), valueError(op, fmt.Errorf("decode %T: panic: %v", v, p))
		}
	}()
	rt := reflect.TypeFor[T]()
	switch form, elem := formOf(rt); form {
	case formPlain:
		if int64(len(b)) != elem.Size() {
			return v, valueError(op, fmt.Errorf("a message of %d bytes is not a %v", len(b), rt))
		}
		x := []T{v}
		_, err = Unpack(b, ViewOf(x))
		return x[0], err
	case formString:
		reflect.ValueOf(&v).Elem().SetString(string(b))
		return v, nil
	case formSlice:
		n := len(b) / int(elem.Size())
		if n*int(elem.Size()) != len(b) {
			return v, valueError(op, fmt.Errorf("a message of %d bytes is not a %v", len(b), rt))
		}
		x := reflect.MakeSlice(rt, n, n)
		if _, err = Unpack(b, newView(op, sliceMemory(x), elem, 0, n)); err == nil {
			reflect.ValueOf(&v).Elem().Set(x)
		}
		return v, err
	case formBinary:
		target := binaryTarget(rt)
		err = target.Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(b)
		if rt.Kind() != reflect.Pointer {
			*target = target.Elem()
		}
		reflect.ValueOf(&v).Elem().Set(*target)
	default:
		to := reflect.ValueOf(&v)
		if rt.Kind() == reflect.Pointer {
			to = reflect.New(rt.Elem())
			reflect.ValueOf(&v).Elem().Set(to)
		}
		err = gob.NewDecoder(bytes.NewReader(b)).DecodeValue(to)
	}
	if err != nil {
		return *new(T), valueError(op, fmt.Errorf("decode %T: %w", v, err))
	}
	return v, nil
}
