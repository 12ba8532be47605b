// Package memsize estimates the memory that API objects use.
package memsize

import (
	"reflect"
	"time"
)

// Of returns the approximate size of a value in memory, in bytes, including everything that it points to. The value
// must be a tree, as API objects are. If two pointers share a value, the value is counted twice. The overhead of the
// allocator is not included.
func Of(value any) int64 {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return 0
	}
	return sizeOf(v.Type()) + beyond(v)
}

// sizeOf returns the size of a value of the type, in bytes, without the memory that it points to.
func sizeOf(t reflect.Type) int64 {
	return int64(t.Size()) //nolint:gosec // the size of a type fits into int64
}

// perEntry is the overhead of a map for each entry, in bytes. It accounts for the unused slots of maps.
const perEntry = 16

var timeType = reflect.TypeFor[time.Time]()

// beyond returns the size of the memory that a value points to, in bytes.
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
		if v.Type() == timeType { // all times share the same location
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

// isFlat reports whether the type is bool or a type of numbers. Their values point to no other memory.
func isFlat(t reflect.Type) bool {
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128
}
