// Package input makes objects as large as a tenant can make them. It also transforms objects as the caches of the
// controllers do.
package input

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Place is a string, list or map in an object that a user can make large.
type Place struct {
	// Path names the place, for example "spec.containers[].name".
	Path string
	// IsList is true if the place is a list or map.
	IsList bool
	// Most is the highest number of items that the CRD allows. 0 means no limit.
	Most int
	grow func(object reflect.Value, n amount)
}

// Grow makes a place of an object larger, until the JSON of the place has about the given number of bytes. It stays
// within the limits of the CRD.
func (p Place) Grow(object client.Object, bytes int) {
	p.grow(reflect.ValueOf(object).Elem(), amount{bytes: bytes, name: distinct})
}

// Add adds items to a list or map until it has the given number of items, within the limits of the CRD. The function
// name returns the name of the i-th item.
func (p Place) Add(object client.Object, items int, name func(i int) string) {
	p.grow(reflect.ValueOf(object).Elem(), amount{items: items, name: name})
}

// amount is the size to which a place grows: a number of bytes, or a number of items if the field items is not 0.
type amount struct {
	bytes, items int
	// name returns the name of the i-th item.
	name func(i int) string
}

// distinct returns a different name for each i. The first names are the condition types that controllers read.
func distinct(i int) string {
	if i < len(conditions) {
		return conditions[i]
	}
	return fmt.Sprintf("item-%d", i)
}

// Similar returns a different name for each i below 4,096. The names differ only in their separators: they become
// equal if the same character replaces all separators.
func Similar(i int) string {
	name := []byte("a")
	for bit := range 12 {
		name = append(name, "-/"[i>>bit&1], 'a')
	}
	return string(name)
}

// Repository has facts about the input of tenants, from the CRDs and the code of the repository.
type Repository struct {
	// schemas are the schemas of our CRDs.
	schemas map[schema.GroupKind]*apiextensionsv1.JSONSchemaProps
	// keys are the strings in the code of the controllers that look like the key of a label or annotation.
	keys []string
}

// Read reads the CRDs and the code of the repository.
func Read(root string) (Repository, error) {
	schemas, err := readSchemas(root)
	if err != nil {
		return Repository{}, err
	}
	keys, err := readKeys(root)
	return Repository{schemas: schemas, keys: keys}, err
}

// PlacesOf returns the places in the objects of a kind. The parameter depth is the maximum number of fields and items
// that such a place is nested in.
func (r Repository) PlacesOf(empty client.Object, kind schema.GroupKind, depth int) []Place {
	w := walk{keys: r.keys, depth: depth, skip: map[reflect.Type]bool{}}
	w.visit(reflect.TypeOf(empty).Elem(), r.schemas[kind], "", func(v reflect.Value, grow func(reflect.Value)) { grow(v) })
	return w.places
}

// walk collects places.
type walk struct {
	places []Place
	keys   []string
	depth  int
	// skip has the types on the path to the visited value. A value of one of these types is not visited again, so that
	// recursive types end.
	skip map[reflect.Type]bool
}

// within finds a value in an object and passes it to the function grow. On the path to the value, it allocates the
// pointers, lists and maps.
type within func(object reflect.Value, grow func(reflect.Value))

func (w *walk) visit(of reflect.Type, limits *apiextensionsv1.JSONSchemaProps, path string, reach within) {
	add := func(grow func(v reflect.Value, n amount)) {
		p := Place{Path: path, IsList: of.Kind() != reflect.String, grow: func(object reflect.Value, n amount) {
			reach(object, func(v reflect.Value) { grow(v, n) })
		}}
		if limits != nil {
			p.Most = int(cmp.Or(ptr.Deref(limits.MaxItems, 0), ptr.Deref(limits.MaxProperties, 0)))
		}
		w.places = append(w.places, p)
	}
	depth := 1 + strings.Count(path, ".") + strings.Count(path, "[]") + strings.Count(path, "{}")
	if limits != nil && limits.Enum != nil || of == reflect.TypeFor[metav1.TypeMeta]() || depth > w.depth {
		return
	}
	switch of.Kind() {
	case reflect.String:
		add(func(v reflect.Value, n amount) {
			if most, ok := validated[path]; ok {
				n.bytes = min(n.bytes, most)
			}
			v.SetString(strings.Repeat("a", lengthOf(limits, n.bytes)))
		})
	case reflect.Pointer:
		w.visit(of.Elem(), limits, path, func(object reflect.Value, grow func(reflect.Value)) {
			reach(object, func(v reflect.Value) {
				if v.IsNil() {
					v.Set(reflect.New(of.Elem()))
				}
				grow(v.Elem())
			})
		})
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return // this is raw JSON, which occurs only in specs
		}
		add(func(v reflect.Value, n amount) { growList(v, limits, n) })
		w.visit(of.Elem(), itemsOf(limits), path+"[]", func(object reflect.Value, grow func(reflect.Value)) {
			reach(object, func(v reflect.Value) {
				if v.Len() == 0 {
					v.Set(reflect.MakeSlice(of, 1, 1))
				}
				grow(v.Index(0))
			})
		})
	case reflect.Map:
		add(func(v reflect.Value, n amount) { growMap(v, limits, n, w.keys) })
		w.visit(of.Elem(), valuesOf(limits), path+"{}", func(object reflect.Value, grow func(reflect.Value)) {
			reach(object, func(v reflect.Value) {
				if v.IsNil() {
					v.Set(reflect.MakeMap(of))
				}
				entry := reflect.New(of.Elem()).Elem()
				grow(entry)
				v.SetMapIndex(reflect.ValueOf("example.org/large").Convert(of.Key()), entry)
			})
		})
	case reflect.Struct:
		w.visitFields(of, limits, path, reach)
	default: // numbers and booleans
	}
}

func (w *walk) visitFields(of reflect.Type, limits *apiextensionsv1.JSONSchemaProps, path string, reach within) {
	if w.skip[of] || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()) {
		return
	}
	w.skip[of] = true
	defer delete(w.skip, of)
	for i := range of.NumField() {
		name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if of == reflect.TypeFor[metav1.ObjectMeta]() && isIdentity[name] || name == "-" {
			continue
		}
		field := func(object reflect.Value, grow func(reflect.Value)) {
			reach(object, func(v reflect.Value) { grow(v.Field(i)) })
		}
		if strings.Contains(options, "inline") {
			w.visit(of.Field(i).Type, limits, path, field)
		} else {
			w.visit(of.Field(i).Type, fieldOf(limits, name), strings.TrimPrefix(path+"."+name, "."), field)
		}
	}
}

// isIdentity is true for the fields of metadata that the API server sets or limits to 253 characters.
var isIdentity = map[string]bool{
	"name": true, "namespace": true, "generateName": true, "uid": true, "resourceVersion": true, "selfLink": true,
	"managedFields": true,
}

// validated maps the path of a string in a kind of Kubernetes to the maximum length that the API server accepts.
var validated = map[string]int{"spec.nodeName": 253, "spec.priorityClassName": 253, "status.podIP": 45}

// perItem is the smallest size in bytes that growList and growMap assume for the JSON of an item.
const perItem = 40

// growList adds items to a list. If the list has an item already, the new items are copies of its first item. Each
// new item gets a name of its own.
func growList(v reflect.Value, limits *apiextensionsv1.JSONSchemaProps, n amount) {
	items := n.items
	if items == 0 {
		size := perItem
		if v.Len() > 0 {
			if first, err := json.Marshal(v.Index(0).Interface()); err == nil {
				size = max(size, len(first))
			}
		}
		items = n.bytes / size
	}
	items = countOf(limits, items, func(s *apiextensionsv1.JSONSchemaProps) *int64 { return s.MaxItems })
	for i := v.Len(); i < items; i++ {
		item := reflect.New(v.Type().Elem()).Elem()
		if i > 0 {
			item.Set(v.Index(0))
		}
		setName(item, n.name(i))
		v.Set(reflect.Append(v, item))
	}
}

// setName sets the name of an item: the item itself if it is a string, or its first string field if it is a struct.
// Items of other types stay unchanged.
func setName(item reflect.Value, name string) {
	switch item.Kind() {
	case reflect.String:
		item.SetString(name)
	case reflect.Struct:
		for _, field := range item.Fields() {
			if field.Kind() == reflect.String {
				field.SetString(name)
				return
			}
		}
	default:
	}
}

// conditions are the types of conditions that controllers read.
var conditions = []string{
	"PodScheduled", "Initialized", "ContainersReady", "Ready", "DisruptionTarget", "Admitted", "GroupScheduled",
	"MaxDurationExceeded", "PodGroupInitiallyScheduled", "SourcesAvailable", "QuotaReserved", "Evicted", "Finished",
}

// growMap adds entries to a map. If the amount is a number of bytes and the schema does not limit the number of
// entries, growMap also adds the given keys, with large values.
func growMap(v reflect.Value, limits *apiextensionsv1.JSONSchemaProps, n amount, keys []string) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	of := v.Type()
	set := func(key, text string) {
		value := reflect.New(of.Elem()).Elem()
		if of.Elem() == reflect.TypeFor[resource.Quantity]() {
			value.Set(reflect.ValueOf(resource.MustParse("1")))
		} else {
			setName(value, text)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(of.Key()), value)
	}
	items := n.items
	if items == 0 {
		items = n.bytes / 2 / perItem
	}
	items = countOf(limits, items, func(s *apiextensionsv1.JSONSchemaProps) *int64 { return s.MaxProperties })
	for i := range items {
		set("example.org/"+n.name(i), "a")
	}
	if n.items == 0 && (limits == nil || limits.MaxProperties == nil) {
		for _, key := range keys {
			set(key, strings.Repeat("0", lengthOf(valuesOf(limits), n.bytes/2/len(keys)))+"7")
		}
	}
}

// readKeys returns the strings in the code of the controllers that look like the key of a label or annotation.
func readKeys(root string) ([]string, error) {
	key := regexp.MustCompile(`"((?:[a-z0-9-]+\.)*(?:tensorstack\.dev|kubernetes\.io|k8s\.io|x-k8s\.io)/[a-zA-Z-]+)"`)
	var keys []string
	for _, module := range []string{"common", "scheduler", "tensorboard"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range key.FindAllStringSubmatch(string(content), -1) {
				keys = append(keys, match[1])
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// lengthOf returns the given number of bytes, or the maximum length of a string in a schema if this length is
// smaller.
func lengthOf(limits *apiextensionsv1.JSONSchemaProps, bytes int) int {
	if limits != nil && limits.MaxLength != nil {
		return min(bytes, int(*limits.MaxLength))
	}
	return bytes
}

// countOf returns the number of items that a list or map can have: the wanted number, but at least 1 and within the
// limits of a schema.
func countOf(
	limits *apiextensionsv1.JSONSchemaProps, items int, most func(*apiextensionsv1.JSONSchemaProps) *int64,
) int {
	if limits != nil && most(limits) != nil {
		items = min(items, int(*most(limits)))
	}
	return max(1, items)
}

func fieldOf(of *apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if of == nil {
		return nil
	}
	if field, ok := of.Properties[name]; ok {
		return &field
	}
	return nil
}

func itemsOf(list *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if list == nil || list.Items == nil {
		return nil
	}
	return list.Items.Schema
}

func valuesOf(object *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if object == nil || object.AdditionalProperties == nil {
		return nil
	}
	return object.AdditionalProperties.Schema
}

// readSchemas returns the schemas of our CRDs.
func readSchemas(root string) (map[schema.GroupKind]*apiextensionsv1.JSONSchemaProps, error) {
	files, err := filepath.Glob(filepath.Join(root, "*/config/crd/*tensorstack.dev_*.yaml"))
	if err != nil {
		return nil, err
	}
	schemas := map[schema.GroupKind]*apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			return nil, err
		}
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		schemas[kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return schemas, nil
}
