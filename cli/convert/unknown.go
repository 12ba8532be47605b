package convert

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unknown records the fields of an object that Kubeflow's types do not have. The parameter job is the object, manifest
// is its YAML node, and paths are the paths of the fields.
func (c *conversion) unknown(job any, manifest *yaml.Node, paths []string) error {
	for _, path := range paths {
		var value any
		if _, node := find(manifest, path); node != nil {
			if err := node.Decode(&value); err != nil {
				return err
			}
		}
		text := "Neither Kubeflow nor Kubernetes has this field."
		if closest := closestTo(job, path); closest != "" {
			text = "Neither Kubeflow nor Kubernetes has this field here. The closest field of this name is " + closest + "."
		}
		c.notMapped(path, value, c.resultOf(path), text)
	}
	return nil
}

// closestTo returns the path closest to the given one at which the types of an object have a field of the same name.
// An empty path means that they have no such field.
func closestTo(object any, path string) string {
	from := steps(path)
	places := placesOf(path[strings.LastIndexByte(path, '.')+1:], reflect.ValueOf(object), "", true)
	if len(places) == 0 {
		return ""
	}
	shared := func(to []string) int {
		count := 0
		for count < min(len(from), len(to)) && from[count] == to[count] {
			count++
		}
		return count
	}
	return slices.MinFunc(places, func(a, b string) int {
		toA, toB := steps(a), steps(b)
		return cmp.Or(shared(toB)-shared(toA), len(toA)-len(toB), strings.Compare(a, b))
	})
}

// placesOf returns the paths of all fields of this name within a value. The parameter path is the path of the value.
// The parameter isSet reports whether the object sets the value. placesOf also searches an unset struct within a set
// value, since a user can set the fields of this struct. It does not search an unset struct within an unset struct.
func placesOf(name string, value reflect.Value, path string, isSet bool) []string {
	var places []string
	switch value.Kind() {
	default: // a scalar has no fields
	case reflect.Pointer:
		switch {
		case !value.IsNil():
			return placesOf(name, value.Elem(), path, isSet)
		case isSet:
			return placesOf(name, reflect.Zero(value.Type().Elem()), path, false)
		}
	case reflect.Slice:
		for i := range value.Len() {
			places = append(places, placesOf(name, value.Index(i), fmt.Sprintf("%s[%d]", path, i), isSet)...)
		}
	case reflect.Map:
		for key, item := range value.Seq2() {
			places = append(places, placesOf(name, item, path+"."+key.String(), isSet)...)
		}
	case reflect.Struct:
		for field, item := range value.Fields() {
			tag, hasTag := field.Tag.Lookup("json")
			fieldName, _, _ := strings.Cut(tag, ",")
			at := path // the fields of an embedded struct belong to the struct around it
			if fieldName != "" {
				at = strings.TrimPrefix(path+"."+fieldName, ".")
			}
			switch {
			case !hasTag, // without tags, the struct has a JSON form of its own
				field.Type == reflect.TypeFor[oldPolicy](): // only old operators read these fields
				continue
			case fieldName == name:
				places = append(places, at)
			}
			places = append(places, placesOf(name, item, at, isSet)...)
		}
	}
	return places
}
