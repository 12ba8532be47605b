package tensorboard

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

// The folders in which the volumes of a TensorBoard are mounted.
const (
	claimsFolder  = "/claims/"
	secretsFolder = "/secrets/"
)

// The schemes of a fileset URI.
const (
	pvcFileset   = "t9k://pvc/"
	minioFileset = "t9k://minio/"
)

// sources are the sources of the logs of a TensorBoard.
type sources struct {
	// All are the sources in the order of the spec, without duplicates.
	All []sidecar.Source
	// Claims and Secrets are the names of the claims and Secrets that the sources use, without duplicates.
	Claims, Secrets []string
}

// sourceCollector collects sources. The time that it needs is linear in the number of sources.
type sourceCollector struct {
	sources

	// seen has the locations of All, and the names of Claims and Secrets with a prefix.
	seen sets.Set[string]
	// runs has the names of the runs of All. A value is the last number that was appended to the name, or 1.
	runs map[string]int
}

// sourcesOf returns the sources of a spec.
func sourcesOf(spec *v1beta1.TensorBoardSpec) sources {
	s := sourceCollector{seen: sets.Set[string]{}, runs: map[string]int{}}
	for _, fileset := range spec.TrainingLogFilesets {
		s.addFileset(string(fileset))
	}
	if spec.LogDir == nil {
		return s.sources
	}
	for _, claim := range spec.LogDir.PVC {
		if len(claim.SubPath) == 0 {
			s.addClaim(claim.Name, "")
		}
		for _, path := range claim.SubPath {
			s.addClaim(claim.Name, string(path))
		}
	}
	if s3 := spec.LogDir.S3; s3 != nil {
		for _, uri := range s3.URI {
			bucket, path, _ := strings.Cut(strings.TrimPrefix(string(uri), "s3://"), "/")
			s.addBucket(s3.SecretRef.Name, bucket, path)
		}
	}
	if http := spec.LogDir.HTTP; http != nil {
		for _, address := range http.URL {
			s.addURL(string(address))
		}
	}
	return s.sources
}

// addFileset adds the source of a fileset URI. The API server has validated the URI.
func (s *sourceCollector) addFileset(uri string) {
	if rest, ok := strings.CutPrefix(uri, pvcFileset); ok {
		claim, path, _ := strings.Cut(rest, "/")
		s.addClaim(claim, path)
		return
	}
	secret, rest, _ := strings.Cut(strings.TrimPrefix(uri, minioFileset), "/")
	bucket, path, _ := strings.Cut(rest, "/")
	s.addBucket(secret, bucket, path)
}

func (s *sourceCollector) addClaim(claim, path string) {
	path = cleaned(path)
	if s.note("claim " + claim) {
		s.Claims = append(s.Claims, claim)
	}
	name := claim + "/" + path
	s.add(pvcFileset+name, name, sidecar.Source{Link: strings.TrimSuffix(claimsFolder+name, "/")})
}

func (s *sourceCollector) addBucket(secret, bucket, path string) {
	path = cleaned(path)
	if s.note("secret " + secret) {
		s.Secrets = append(s.Secrets, secret)
	}
	name := bucket + "/" + path
	s.add(minioFileset+secret+"/"+name, name, sidecar.Source{
		S3: &sidecar.S3Source{Bucket: bucket, Prefix: path, Secret: secretsFolder + secret},
	})
}

func (s *sourceCollector) addURL(address string) {
	name := address
	if parsed, err := url.Parse(address); err == nil { // drops the query, which can contain a signature
		name = parsed.Host + parsed.Path
	}
	s.add(address, name, sidecar.Source{HTTP: &sidecar.HTTPSource{URL: address}})
}

// add adds a source and a run with the given name, unless a source with the same location already exists. If another
// run already has the name, the lowest number from 2 that makes the name unique is appended.
func (s *sourceCollector) add(location, name string, source sidecar.Source) {
	if !s.note(location) {
		return
	}
	name = runName(name)
	source.Run = name
	number := max(s.runs[name], 1)
	for _, isTaken := s.runs[source.Run]; isTaken; _, isTaken = s.runs[source.Run] {
		number++
		source.Run = name + "-" + strconv.Itoa(number)
	}
	s.runs[name], s.runs[source.Run] = number, 1
	s.All = append(s.All, source)
}

// note notes a location or a name, and reports whether it is new.
func (s *sourceCollector) note(key string) (isNew bool) {
	isNew = !s.seen.Has(key)
	s.seen.Insert(key)
	return isNew
}

// maxRunName is the maximum length, in bytes, of a run name before a number is appended to it. A file name has at
// most 255 bytes.
const maxRunName = 200

// runName turns a path into the name of a single folder.
func runName(path string) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' || r == utf8.RuneError {
			return '-'
		}
		return r
	}, strings.Trim(path, "/"))
	name = strings.TrimLeft(name, ".") // TensorBoard ignores hidden folders, and .. is the parent folder
	if len(name) > maxRunName {
		name = strings.ToValidUTF8(name[:maxRunName], "")
	}
	if name == "" {
		return "logs"
	}
	return name
}

// cleaned removes empty elements and single dots from a path.
func cleaned(path string) string {
	parts := slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." })
	return strings.Join(parts, "/")
}
