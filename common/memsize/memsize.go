// Package memsize measures how much memory API objects take.
package memsize

import (
	"reflect"
	"time"
)

// Of returns about how many bytes of memory a value takes, with all that it points to. The value must be a tree, as API
// objects are: what two pointers share counts twice. The overhead of the allocator is left out.
func Of(value any) int64 {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return 0
	}
	return sizeOf(v.Type()) + beyond(v)
}

// sizeOf returns how many bytes a value of the type takes itself.
func sizeOf(t reflect.Type) int64 {
	return int64(t.Size()) //nolint:gosec // no type is so large
}

// perEntry is what a map takes for an entry besides its key and its value: the map is not full.
const perEntry = 16

var timeType = reflect.TypeFor[time.Time]()

// beyond returns how many bytes a value takes outside of itself.
func beyond(v reflect.Value) int64 {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return sizeOf(v.Elem().Type()) + beyond(v.Elem())
	case reflect.Slice:
		n := int64(v.Cap()) * sizeOf(v.Type().Elem())
		if isFlat(v.Type().Elem()) {
			return n
		}
		for i := range v.Len() {
			n += beyond(v.Index(i))
		}
		return n
	case reflect.Map:
		n := int64(v.Len()) * (sizeOf(v.Type().Key()) + sizeOf(v.Type().Elem()) + perEntry)
		for entries := v.MapRange(); entries.Next(); {
			n += beyond(entries.Key()) + beyond(entries.Value())
		}
		return n
	case reflect.Struct:
		if v.Type() == timeType { // all times share their location
			return 0
		}
		n := int64(0)
		for _, field := range v.Fields() {
			n += beyond(field)
		}
		return n
	default:
		return 0
	}
}

// isFlat reports whether values of the type take no memory outside of themselves.
func isFlat(t reflect.Type) bool {
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128
}
