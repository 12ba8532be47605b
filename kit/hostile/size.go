package hostile

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/framework"
)

// etcdLimit is the maximum size of a request to etcd, and so of an object, in bytes.
const etcdLimit = 3 << 19

// The maximum memory of a spec and of one template in a controller, in bytes. Both are given as multiples of the
// maximum size of an object in JSON.
const (
	maxSpecSize     = 28 * etcdLimit
	maxTemplateSize = 14 * etcdLimit
)

// CheckSize checks how much memory a spec and a template can take in a controller if the object is small enough for
// etcd. Many small items take the most memory, so the limits of the CRD on numbers of items determine the maximum.
func CheckSize[J framework.Job](t *testing.T, controller framework.Controller[J], crdFile string) {
	t.Helper()
	definition, err := ReadCRD(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	job := reflect.TypeOf(controller.Framework.NewJob()).Elem()
	root := definition.Schema()
	spec, template := find(root, job, job.Name()+"Spec"), find(root, job, "PodTemplateSpec")
	for name, tc := range map[string]struct {
		typed
		most float64
	}{
		"spec": {spec, maxSpecSize}, "template": {template, maxTemplateSize},
	} {
		price, largest := tc.largest(etcdLimit)
		bound := largest.heap + float64(price)*(etcdLimit-largest.json)
		t.Logf("a %s takes at most %.1f MiB in memory", name, bound/(1<<20))
		if bound > tc.most {
			t.Errorf("a %s takes up to %.0f bytes in memory, want at most %.0f", name, bound, tc.most)
		}
		document, err := json.Marshal(largest.value())
		if err != nil {
			t.Fatal(err)
		}
		taken := heapOf(t, document, tc.typ)
		t.Logf("a %s of %d bytes takes %.1f MiB in memory", name, len(document), taken/(1<<20))
		estimate := largest.heap + float64(price)*(float64(len(document))-largest.json)
		if taken > estimate*1.02 || taken < estimate/2 {
			t.Errorf("a %s of %d bytes in JSON takes %.0f bytes in memory, but the estimate is %.0f",
				name, len(document), taken, estimate)
		}
	}
}

// typed is a schema with the Go type into which its values are decoded.
type typed struct {
	schema *schema.Structural
	typ    reflect.Type
}

// find returns the first schema at or below s whose Go type has the given name.
func find(s *schema.Structural, typ reflect.Type, name string) typed {
	switch {
	case typ.Name() == name:
		return typed{s, typ}
	case typ.Kind() == reflect.Pointer:
		return find(s, typ.Elem(), name)
	case typ.Kind() == reflect.Slice && s.Items != nil:
		return find(s.Items, typ.Elem(), name)
	case typ.Kind() == reflect.Struct:
		for field, property := range members(s, typ) {
			if found := find(property, field.Type, name); found.schema != nil {
				return found
			}
		}
	}
	return typed{}
}

// members returns the fields of a struct that the schema allows, with their schemas.
func members(s *schema.Structural, typ reflect.Type) iter.Seq2[reflect.StructField, *schema.Structural] {
	return func(yield func(reflect.StructField, *schema.Structural) bool) {
		for _, field := range reflect.VisibleFields(typ) {
			property, ok := s.Properties[nameOf(field)]
			if ok && !yield(field, &property) {
				return
			}
		}
	}
}

// nameOf returns the JSON name of a field.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// largest returns a price and the value that pricing selects at this price. The JSON of the value has at most the
// given number of bytes, and no value of the same size takes more memory. For each additional byte of JSON, a larger
// value takes at most the price in additional bytes of memory. This is the dual of a knapsack problem: at a fixed
// price, each part of a value can be chosen independently.
func (v typed) largest(bytes float64) (pricing, part) {
	low, high := pricing(1), pricing(1000)
	for high-low > 0.001 {
		if price := (low + high) / 2; price.of(v.schema, v.typ).json > bytes {
			low = price
		} else {
			high = price
		}
	}
	return high, high.of(v.schema, v.typ)
}

// heapOf returns the number of bytes that a decoded document takes on the heap.
func heapOf(t *testing.T, document []byte, typ reflect.Type) float64 {
	t.Helper()
	value := reflect.New(typ)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := json.Unmarshal(document, value.Interface()); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(value)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// part is a part of an object. It has the size of the part in JSON, and the heap memory of the part without the Go
// value itself, both in bytes. The function value returns the part as a value for the JSON encoder.
type part struct {
	json, heap float64
	value      func() any
}

func literal(json, heap float64, value any) part {
	return part{json, heap, func() any { return value }}
}

// pricing is a price for JSON, as a number of bytes of memory per byte of JSON. It selects the parts with the highest
// surplus. The surplus of a part is its memory minus the price of its JSON.
type pricing float64

func (p pricing) surplus(c part) float64 { return c.heap - float64(p)*c.json }

func (p pricing) better(a, b part) part {
	if p.surplus(b) > p.surplus(a) {
		return b
	}
	return a
}

// of returns the part with the highest surplus that the schema allows for a Go type. It assumes the shortest strings,
// and keys of one letter. Longer ones have no higher surplus, so the bound in CheckSize holds for every object that
// the API server accepts.
func (p pricing) of(s *schema.Structural, typ reflect.Type) part {
	if typ.Kind() == reflect.Pointer {
		c := p.of(s, typ.Elem())
		c.heap += allocated(int(typ.Elem().Size()))
		return c
	}
	switch {
	case typ == reflect.TypeFor[resource.Quantity]():
		// A quantity that does not fit into 64 bits is an inf.Dec, which takes memory on the heap.
		return p.better(literal(1, 0, 1), literal(6, 128, "1e20"))
	case s.XIntOrString, s.Type == "integer", s.Type == "number":
		return literal(1, 0, 1)
	case s.Type == "boolean":
		return literal(4, 0, true)
	case s.Type == "array" && s.Items != nil:
		return p.list(s, typ)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
		return p.table(s, typ)
	case s.Type == "object":
		return p.object(s, typ)
	default:
		return p.text(s)
	}
}

// text returns the shortest string, or the first value of an enum. Longer strings have no higher surplus, because
// each further byte takes one byte both in JSON and in memory.
func (p pricing) text(s *schema.Structural) part {
	if s.ValueValidation != nil {
		switch {
		case len(s.ValueValidation.Enum) > 0:
			first, _ := s.ValueValidation.Enum[0].Object.(string)
			return literal(float64(len(first)+2), 0, first)
		case s.ValueValidation.Format == "date-time":
			return literal(22, 0, "2026-01-01T00:00:00Z")
		}
	}
	return literal(2, 0, "")
}

func (p pricing) object(s *schema.Structural, typ reflect.Type) part {
	var required []string
	if s.ValueValidation != nil {
		required = s.ValueValidation.Required
	}
	var chosen []member
	for field, property := range members(s, typ) {
		c := p.of(property, field.Type)
		c.json += float64(len(nameOf(field)) + len(`"":,`))
		if slices.Contains(required, nameOf(field)) || p.surplus(c) > 0 {
			chosen = append(chosen, member{nameOf(field), c})
		}
	}
	sum := part{json: float64(len("{}"))}
	if len(chosen) > 0 {
		sum.json-- // there is no comma after the last field
	}
	for _, m := range chosen {
		sum.json += m.json
		sum.heap += m.heap
	}
	sum.value = func() any {
		object := map[string]any{}
		for _, m := range chosen {
			object[m.name] = m.value()
		}
		return object
	}
	return sum
}

type member struct {
	name string
	part
}

// list returns the list with the highest surplus. Between two lengths at which the slice grows, each item adds the
// same surplus. So the shortest or the longest list between them is the best, and no other length is tried.
func (p pricing) list(s *schema.Structural, typ reflect.Type) part {
	item := p.of(s.Items, typ.Elem())
	best := literal(2, 0, []any{})
	slice := reflect.New(typ).Elem()
	limit := int(*s.ValueValidation.MaxItems) // trimcrd ensures that every list has a limit
	for n := 0; n < limit; {
		slice.Grow(1) // as the JSON decoder does
		full := min(slice.Cap(), limit)
		memory := allocated(slice.Cap() * int(typ.Elem().Size()))
		for _, count := range []int{n + 1, full} {
			best = p.better(best, part{
				json: float64(count)*(item.json+1) + 1, heap: float64(count)*item.heap + memory,
				value: func() any {
					items := make([]any, count)
					for i := range items {
						items[i] = item.value()
					}
					return items
				},
			})
		}
		n = full
		slice.SetLen(n)
	}
	return best
}

// table returns the map with the highest surplus. A map grows in steps like a list.
func (p pricing) table(s *schema.Structural, typ reflect.Type) part {
	const header, group = 48, 8
	perGroup := group * (1 + int(typ.Key().Size()) + int(typ.Elem().Size()))
	item := p.of(s.AdditionalProperties.Structural, typ.Elem())
	best := literal(2, header, map[string]any{})
	limit := int(*s.ValueValidation.MaxProperties)
	for n, slots := 0, group; n < limit; slots *= 2 {
		full := slots
		if slots > group {
			full = slots * 7 / 8
		}
		full = min(full, limit)
		memory := header + allocated(slots/group*perGroup)
		for _, count := range []int{n + 1, full} {
			best = p.better(best, part{
				json: float64(count)*(item.json+float64(len(`"a":,`))) + 1, heap: float64(count)*item.heap + memory,
				value: func() any {
					object := map[string]any{}
					for i := range count {
						object[strconv.FormatInt(int64(i), 36)] = item.value()
					}
					return object
				},
			})
		}
		n = full
	}
	return best
}

// allocated returns the number of bytes that the allocator uses for a value of the given size.
func allocated(bytes int) float64 {
	const header = 8 // a value with pointers has a header if it is larger than 512 bytes
	if bytes > 512 {
		bytes += header
	}
	return float64(cap(append([]byte(nil), make([]byte, bytes)...)))
}

// CheckRealJobs checks the jobs in the manifests that match the patterns. The CRD must admit them, and no list, map
// or string in them may be longer than half of its limit. Limits below 32 are not checked, because such a limit is
// the number of all possible items, for example of the replica types of TensorFlow.
func CheckRealJobs(t *testing.T, kind, crdFile string, patterns ...string) {
	t.Helper()
	definition, err := ReadCRD(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := Manifests(kind, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		name, _, _ := unstructured.NestedString(job, "metadata", "name")
		inNamespace(job, "ns")
		if err := definition.Admit(t.Context(), job); err != nil {
			t.Errorf("the CRD rejects job %s: %v", name, err)
		}
		spec := definition.Schema().Properties["spec"]
		for _, place := range nearLimits(job["spec"], &spec, "spec") {
			t.Errorf("job %s uses more than half of a limit: %s", name, place)
		}
	}
}

// nearLimits returns the values at or below a node that are longer than half of their limit, unless the limit is
// below 32.
func nearLimits(node any, s *schema.Structural, path string) []string {
	var near []string
	compare := func(length int, limit *int64) {
		if limit != nil && *limit >= 32 && int64(2*length) > *limit {
			near = append(near, fmt.Sprintf("%s has %d of %d", path, length, *limit))
		}
	}
	validation := ptr.Deref(s.ValueValidation, schema.ValueValidation{})
	switch node := node.(type) {
	case string:
		compare(len(node), validation.MaxLength)
	case []any:
		compare(len(node), validation.MaxItems)
		for i, item := range node {
			near = append(near, nearLimits(item, s.Items, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case map[string]any:
		compare(len(node), validation.MaxProperties)
		for name, value := range node {
			near = append(near, nearLimits(value, propertyOf(s, name), path+"."+name)...)
		}
	}
	return near
}
