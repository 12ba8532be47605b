package tensorboard

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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

// sourcesOf returns the sources of a spec.
func sourcesOf(spec *v1beta1.TensorBoardSpec) sources {
	s := sources{}
	for _, fileset := range spec.TrainingLogFilesets {
		s.addFileset(string(fileset))
	}
	if spec.LogDir == nil {
		return s
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
	return s
}

// addFileset adds the source of a fileset URI. The API server has validated the URI.
func (s *sources) addFileset(uri string) {
	if rest, ok := strings.CutPrefix(uri, pvcFileset); ok {
		claim, path, _ := strings.Cut(rest, "/")
		s.addClaim(claim, path)
		return
	}
	secret, rest, _ := strings.Cut(strings.TrimPrefix(uri, minioFileset), "/")
	bucket, path, _ := strings.Cut(rest, "/")
	s.addBucket(secret, bucket, path)
}

func (s *sources) addClaim(claim, path string) {
	path = cleaned(path)
	s.Claims = withOne(s.Claims, claim)
	s.add(claim+"/"+path, sidecar.Source{Link: strings.TrimSuffix(claimsFolder+claim+"/"+path, "/")})
}

func (s *sources) addBucket(secret, bucket, path string) {
	path = cleaned(path)
	s.Secrets = withOne(s.Secrets, secret)
	s.add(bucket+"/"+path, sidecar.Source{
		S3: &sidecar.S3Source{Bucket: bucket, Prefix: path, Secret: secretsFolder + secret},
	})
}

func (s *sources) addURL(address string) {
	name := address
	if parsed, err := url.Parse(address); err == nil { // drops the query, which can contain a signature
		name = parsed.Host + parsed.Path
	}
	s.add(name, sidecar.Source{HTTP: &sidecar.HTTPSource{URL: address}})
}

// add adds a source and names its run, unless the source already exists.
func (s *sources) add(name string, source sidecar.Source) {
	if slices.ContainsFunc(s.All, func(other sidecar.Source) bool { return same(other, source) }) {
		return
	}
	name = runName(name)
	source.Run = name
	for i := 2; slices.ContainsFunc(s.All, func(other sidecar.Source) bool { return other.Run == source.Run }); i++ {
		source.Run = name + "-" + strconv.Itoa(i)
	}
	s.All = append(s.All, source)
}

// same reports whether two sources are the same location.
func same(a, b sidecar.Source) bool {
	switch {
	case a.S3 != nil && b.S3 != nil:
		return *a.S3 == *b.S3
	case a.HTTP != nil && b.HTTP != nil:
		return *a.HTTP == *b.HTTP
	default:
		return a.Link != "" && a.Link == b.Link
	}
}

// maxRunName is the maximum length of a run name in bytes. It leaves room for a number, because a file name has at most
// 255 bytes.
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

// withOne returns the list with a name appended, unless the list contains the name.
func withOne(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}
