//! Tests of masked and unmasked texts, independent of how a text is cut.

use proptest::prelude::*;

use super::*;

fn exact(values: &[(&str, &str)]) -> Arc<ExactValues> {
    let mut exact = ExactValues::default();
    for (name, value) in values {
        assert!(exact.add(name, value), "{value} is too short");
    }
    Arc::new(exact)
}

fn redacted(text: &str, exact: &Arc<ExactValues>, size: usize) -> String {
    let mut redactor = Redactor::new(true, exact);
    let mut found = String::new();
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(size) {
        found.push_str(&redactor.push(&piece.iter().collect::<String>()));
    }
    found + &redactor.finish()
}

/// Checks the redaction of a text, in any pieces.
#[track_caller]
fn check(text: &str, expected: &str) {
    let none = Arc::default();
    assert_eq!(redact(text, &none), expected, "{text:?}");
    for size in [1, 2, 7, 64] {
        assert_eq!(redacted(text, &none, size), expected, "{text:?} in pieces of {size}");
    }
}

/// Characters without an order to them.
fn random(length: usize) -> String {
    let all = b"a7Kq2Lm9Zx4Tr0Vb8Nc1Wd6Yf3Hg5Js";
    (0..length).map(|number| char::from(all[(number * 7 + number / 31) % all.len()])).collect()
}

#[test]
fn tokens_of_known_forms_are_masked() {
    for (token, name) in [
        ("AKIAIOSFODNN7ABCDEFG".to_owned(), "AWS access key"),
        (format!("ghp_{}", random(36)), "GitHub token"),
        (format!("ghs_123_eyJ{}.eyJ{}.{}", random(40), random(200), random(43)), "GitHub token"),
        (format!("github_pat_{}_{}", random(22), random(59)), "GitHub token"),
        (format!("glpat-{}", random(20)), "GitLab token"),
        (format!("xoxb-123456789012-1234567890123-{}", random(24)), "Slack token"),
        (format!("sk_live_{}", random(24)), "Stripe key"),
        (format!("sk-proj-{}-_{}", random(40), random(60)), "OpenAI key"),
        (format!("sk-{}T3BlbkFJ{}", random(20), random(20)), "OpenAI key"),
        (format!("sk-ant-api03-{}AA", random(93)), "Anthropic key"),
        (format!("AIza{}", random(35)), "Google API key"),
        (format!("npm_{}", random(36)), "npm token"),
        (format!("pypi-AgEIcHlwaS5vcmc{}", random(100)), "PyPI token"),
        (format!("cio{}", random(32)), "crates.io token"),
        (format!("hf_{}", random(34)), "Hugging Face token"),
        (format!("eyJ{}.eyJ{}.{}", random(33), random(60), random(43)), "JSON web token"),
    ] {
        for (before, after) in [
            ("", ""),
            ("see ", " there"),
            ("\"", "\","),
            ("x=", "&y=1"),
            ("(", ")"),
            ("\\n", "\\n"),
            ("%3D", ""),
            ("é", "é"),
            ("+", "\n"),
        ] {
            let masked = format!("{before}[masked: {name}]{after}");
            check(&format!("{before}{token}{after}"), &masked);
        }
    }
    check(
        &format!("https://hooks.slack.com/services/T0/B0/{} x", random(30)),
        "https://hooks.slack.com/services/[masked: Slack webhook] x",
    );
}

#[test]
fn what_only_begins_like_a_token_passes() {
    for text in [
        "ghp_short",
        "AKIA",
        "AKIAIOSFODNN7ABCDEFGH",
        "xAKIAIOSFODNN7ABCDEFG",
        "akiaiosfodnn7abcdefg",
        "sk-learn-contrib-a-long-name",
        "npm_config_registry_of_some_length_abcdefgh",
        "npm_lifecycle_event",
        "eyJhbGciOi",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "hf_hub_download_of_a_model_with_a_long_name",
        "cioABC",
        "pypi-AgE",
        "glpat-",
        "task-proj-0123456789012345678901234567890123456789",
        "a.eyJ.b.eyJ.c",
        "SG.com",
        "ya29.",
        "tskey-",
        "whsec_",
    ] {
        check(text, text);
        check(&format!(" {text} "), &format!(" {text} "));
    }
}

#[test]
fn private_keys_are_masked_however_they_are_shown() {
    let line = random(64);
    let lines = [line.as_str(), &random(64), "c2hvcnQ="];
    let begin = "-----BEGIN RSA PRIVATE KEY-----";
    let end = "-----END RSA PRIVATE KEY-----";
    check(
        &format!("a\n{begin}\n{}\n{end}\nb\n", lines.join("\n")),
        &format!("a\n{begin}[masked: private key]\n{end}\nb\n"),
    );
    check(
        &format!("key: \"{begin}\\n{}\\n{end}\\n\", next", lines.join("\\n")),
        &format!("key: \"{begin}[masked: private key]\\n{end}\\n\", next"),
    );
    check(
        &format!("+{begin}\n+{}\n+{end}\n", lines.join("\n+")),
        &format!("+{begin}[masked: private key]\n+{end}\n"),
    );
    let numbered: Vec<String> =
        lines.iter().zip(2..).map(|(line, number)| format!("  {number} | {line}")).collect();
    check(
        &format!("  1 | {begin}\n{}\n  5 | {end}\n", numbered.join("\n")),
        &format!("  1 | {begin}[masked: private key]\n  5 | {end}\n"),
    );
    check(
        &format!(
            "{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n{}\n{end}\n",
            lines.join("\n")
        ),
        &format!("{begin}[masked: private key]\n{end}\n"),
    );
    let pgp = "-----BEGIN PGP PRIVATE KEY BLOCK-----";
    check(
        &format!(
            "{pgp}\nVersion: GnuPG v2\n\n{}\n=aB3x\n-----END PGP PRIVATE KEY BLOCK-----\n",
            lines.join("\n")
        ),
        &format!("{pgp}[masked: private key]\n-----END PGP PRIVATE KEY BLOCK-----\n"),
    );
    // Cut off: what follows is no line of a key.
    check(
        &format!("{begin}\n{line}\nNow to something else, in words.\n"),
        &format!("{begin}[masked: private key]\nNow to something else, in words.\n"),
    );
    check(&format!("{begin}\n{line}"), &format!("{begin}[masked: private key]"));
}

#[test]
fn what_is_no_private_key_passes() {
    for text in [
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUAbcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH\n-----END CERTIFICATE-----\n",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEabcdefghijklmnopqrstuvwxyz01\n-----END PUBLIC KEY-----\n",
        "it begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----\n",
        "a.rs:1: \"-----BEGIN PRIVATE KEY-----\"\nb.rs:2: \"-----BEGIN RSA PRIVATE KEY-----\",\n",
        "-----BEGIN ",
        "-----BEGIN RSA PRIVATE KEY-----",
    ] {
        check(text, text);
    }
}

#[test]
fn secrets_are_known_by_their_names() {
    let value = "x7Kq2Lm9Zx4T";
    for (before, after) in [
        ("DB_PASSWORD=", "\n"),
        ("export API_TOKEN=\"", "\"\n"),
        ("\"clientSecret\": \"", "\","),
        ("password: '", "'"),
        ("--token=", " x"),
        ("aws_secret_access_key = ", "\n"),
        ("apiKey=`", "`"),
        ("{\\\"access_token\\\":\\\"", "\\\"}"),
        ("config['password'] = '", "'"),
        ("secret := \"", "\""),
        ("secret => '", "'"),
        ("https://a.example/x?token=", "&y=1"),
        ("AccountKey=", ";EndpointSuffix=core.windows.net"),
        ("//registry.npmjs.org/:_authToken=", "\n"),
        ("X-Api-Key: ", "\r\n"),
        ("let token: &str = \"", "\";"),
        ("password: str = \"", "\""),
        ("const secret: string = '", "'"),
        ("PASSWORD=b\"", "\""),
    ] {
        check(&format!("{before}{value}{after}"), &format!("{before}[masked: secret]{after}"));
    }
    check(&format!("SECRET={}", random(3000)), "SECRET=[masked: secret]");
    check(&format!("secret='{}' x", random(3000)), "secret='[masked: secret]' x");
}

#[test]
fn names_without_a_secret_behind_them_pass() {
    for text in [
        "password",
        "Password: ",
        "password=\n",
        "PASSWORD=hunter",
        "password: String,",
        "let token = next_token();",
        "token = getToken2FromV1(x)",
        "token: Token(Ident), span: 12..34",
        "secret: ${{ secrets.TOKEN_1a2b3c }}",
        "password: ${DB_PASSWORD_1a2b}",
        "token=$TOKEN1A2B3C",
        "password: \"<your-p4ssw0rd-h3re>\"",
        "secretName: my-app-1a2b3c4d",
        "token_type: bearer1a2b3c4d",
        "tokens=1a2b3c4d5e6f",
        "max_tokens: 4096",
        "PWD=/home/ada/w0rk5pace/a1b2",
        "OLDPWD=/tmp/a1b2c3d4",
        "js-tokens \"^3.0.0 || ^4.0.0\"",
        "\"jsonwebtoken\": \"^9.0.2\"",
        "error: expected token: `1a2b3c`",
        "token: 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "secret = \"changeme1a2b3c4d\"",
        "password=process.env.PASSW0RD1A2B",
        "Token::new(a1b2c3d4e5f6)",
        "token[a1b2c3d4e5f6]",
        "access_key_id: a1b2c3d4e5f6",
        "password_file=/run/secrets/a1b2c3d4",
        "csrf-token@1.2.3",
        "token: OAuth2Token",
        "private_key: PKCS7PrivateKeyTypes,",
        "let private_key: aws_lc_rs::Hpke2Key<'_> = x",
        "key.PrivateKey = openssl.hpke.MLKEM768X25519PrivateKey",
    ] {
        check(text, text);
    }
}

#[test]
fn authorization_headers_keep_their_scheme() {
    check("> Authorization: Bearer abc123def456\r\n", "> Authorization: Bearer [masked: authorization]\r\n");
    check("authorization: Basic dXNlcjpwYXNz\n", "authorization: Basic [masked: authorization]\n");
    check("'Authorization': 'token 1a2b3c4d5e'", "'Authorization': 'token [masked: authorization]'");
    check("\"Authorization\":\"1a2b3c4d5e\"", "\"Authorization\":\"[masked: authorization]\"");
    check("curl -H 'X: Bearer x7Kq2Lm9Zx4Tr0Vb'", "curl -H 'X: Bearer [masked: authorization]'");
    for text in [
        "Authorization: Bearer $TOKEN\n",
        "Authorization: Bearer <token>\n",
        "Authorization: Bearer YOUR_ACCESS_TOKEN\n",
        "the Authorization header is missing",
        "Authorization: required",
        "[`Authorization`]: http::header::Authorization2Type",
        "\"EndpointAuthorization\": \"schemaNameOfIt\"",
        "Bearer of good news",
        "WWW-Authenticate: Bearer realm=\"x\"",
    ] {
        check(text, text);
    }
}

#[test]
fn urls_lose_their_passwords_alone() {
    check(
        "postgres://ada:S3cret!x@db.example:5432/app",
        "postgres://ada:[masked: password in a URL]@db.example:5432/app",
    );
    check("http://ada:p@ss:w@proxy:3128 ", "http://ada:[masked: password in a URL]@proxy:3128 ");
    check("redis://:hunter22@cache", "redis://:[masked: password in a URL]@cache");
    check("https://3f2a9c0d4e5b6a7f8091@sentry.io/1", "https://[masked: password in a URL]@sentry.io/1");
    check(
        &format!("https://ghp_{}@github.com/a", random(36)),
        "https://[masked: password in a URL]@github.com/a",
    );
    for text in [
        "http://localhost:3000/",
        "https://example.com/@scope/name",
        "git+ssh://git@github.com/a/b.git",
        "https://a.example/x?y=a:b@c",
        "postgres://postgres:postgres@localhost/app",
        "https://user:password@host",
        "https://x:${TOKEN}@host",
        "://",
        "a://b:",
        "https://host:8443",
        "npm:@scope/name@https://x.example/y.tgz",
    ] {
        check(text, text);
    }
}

#[test]
fn values_that_are_given_are_masked_wherever_they_stand() {
    let values = exact(&[
        ("DATABASE_URL", "postgres-is-at-home"),
        ("PIN", "12345678"),
        ("LONG", "12345678-and-more"),
        ("É", "ééééé"),
    ]);
    for (text, expected) in [
        ("x postgres-is-at-home y", "x [masked: DATABASE_URL] y"),
        ("12345678", "[masked: PIN]"),
        ("12345678-and-more 12345678-and-less", "[masked: LONG] [masked: PIN]-and-less"),
        ("1234567812345678", "[masked: PIN][masked: PIN]"),
        ("1234567 postgres-is-at-", "1234567 postgres-is-at-"),
        ("éééééé", "[masked: É]é"),
        ("112345678", "1[masked: PIN]"),
    ] {
        assert_eq!(redact(text, &values), expected);
        for size in [1, 3, 20] {
            assert_eq!(redacted(text, &values, size), expected, "in pieces of {size}");
        }
    }
    assert!(!ExactValues::default().add("SHORT", "1234567"));
    assert!(!format!("{values:?}").contains("12345678"));
}

#[test]
fn of_files_with_variables_only_secrets_are_taken() {
    let mut values = ExactValues::default();
    values.add_dotenv(
        "# comment\nNODE_ENV=production\nHOST=localhost.example\nexport API_TOKEN='correct horse battery'\n\
         DATABASE_URL=\"postgres://ada:enigma-42@db/app\"\nSESSION=x7Kq2Lm9Zx4T # note\nDB_PASS=short\nnot a line\n",
    );
    let values = Arc::new(values);
    let text = "production localhost.example correct horse battery postgres://ada:enigma-42@db/app enigma-42 x7Kq2Lm9Zx4T short";
    assert_eq!(
        redact(text, &values),
        "production localhost.example [masked: API_TOKEN] [masked: DATABASE_URL] [masked: DATABASE_URL] [masked: SESSION] short"
    );
}

#[test]
fn names_tell_which_variables_are_secret() {
    for name in [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "DB_PASSWORD",
        "PGPASSWORD",
        "API_KEY",
        "apikey",
        "OPENAI_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CARGO_REGISTRIES_X_TOKEN",
        "DATABASE_URL",
        "REDIS_URL",
        "MONGODB_URI",
        "SENTRY_DSN",
        "AZURE_STORAGE_CONNECTION_STRING",
        "SSH_AUTH_SOCK",
        "npm_config__authToken",
        "GITHUB_PAT",
        "SIGNING_PRIVATE_PEM",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "HOME",
        "CARGO_HOME",
        "NODE_ENV",
        "TOKENIZERS_PARALLELISM",
        "KEYBOARD",
        "AUTHOR",
        "HTTP_PROXY",
        "PIP_INDEX_URL",
        "PORT",
        "AWS_REGION",
        "AWS_PROFILE",
        "BASE_URL",
        "GOPRIVATE_X",
        "PASSENGER_ENV",
        "GIT_CONFIG_KEY_0",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn without_redaction_everything_passes() {
    let mut redactor = Redactor::new(false, &exact(&[("A", "12345678")]));
    let text = format!("12345678 ghp_{}", random(36));
    assert_eq!(redactor.push(&text), text);
    assert_eq!(redactor.finish(), "");
}

#[test]
fn ordinary_output_passes_unchanged() {
    let text = include_str!("../../../../../tests/corpus/ordinary_output.txt");
    assert!(text.lines().count() > 300);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        assert_eq!(redact(line, &Arc::default()), line, "line {number}");
    }
    assert_eq!(redact(text, &Arc::default()), text);
    assert_eq!(redacted(text, &Arc::default(), 17), text);
}

#[test]
fn what_is_decided_is_given_out_at_once() {
    let mut redactor = Redactor::new(true, &Arc::default());
    assert_eq!(redactor.push("Compiling a v1.0.0"), "Compiling a v1.0.0");
    assert_eq!(redactor.push("\nlistening on "), "\nlistening on ");
    assert_eq!(redactor.push("http"), "", "a webhook may begin so");
    assert_eq!(redactor.push("://localhost"), "http");
    assert_eq!(redactor.push(":3000\n"), "://localhost:3000\n");
    assert!(matches!(redactor.push("plain text\n"), Cow::Borrowed(_)));
    assert_eq!(redactor.finish(), "");
}

#[test]
fn what_is_kept_is_bounded() {
    for begin in [
        "eyJ",
        "ghp_",
        "https://",
        "password=",
        "password='",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "Authorization: ",
        "sk-",
    ] {
        for filler in
            ["a", "a1B2", "MIIE", "a.", ": ", "@", "-----BEGIN ", "\"", "ä", "eyJ", "password=", "\n"]
        {
            let mut scanner = PatternScanner::default();
            scanner.push(begin);
            for _ in 0..200 {
                scanner.push(&filler.repeat(64));
                assert!(scanner.kept() < 8192, "{begin:?} and {filler:?}: {}", scanner.kept());
            }
        }
    }
}

/// Texts with much in them that matters.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "ghp_", "ghs_", "sk-", "sk-ant-", "sk-proj-", "AKIA", "npm_", "cio", "eyJ", "hf_", "xoxb-", "glpat-", "https://", "://",
            "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "-----BEGIN ", "DEK-Info: x", "password", "token", "apiKey",
            "Authorization", "Bearer ", "Basic ", "secret", "_auth", "T3BlbkFJ", "known-value-1", "known-value-1-longer",
        ]).prop_map(str::to_owned),
        4 => prop::sample::select(vec![
            "=", ":", ": ", " = ", "\"", "'", "\\\"", "\\n", "\n", " ", "@", "/", ".", "-", "_", "+", "|", "1 | ", ",", "(", "$", "é", "€", "=>",
            ":=", "%3D", "[", "]",
        ]).prop_map(str::to_owned),
        4 => "[a-zA-Z0-9]{1,12}",
        1 => (16_usize..90).prop_map(random),
        1 => "[A-Z2-7]{16}",
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn pieces_change_nothing(text in texts(), cuts in prop::collection::vec(1_usize..40, 1..20)) {
        let values = exact(&[("ONE", "known-value-1"), ("TWO", "known-value-1-longer"), ("E", "é€é€é€")]);
        let whole = redact(&text, &values).into_owned();
        prop_assert_eq!(&redacted(&text, &values, 1), &whole);
        let mut redactor = Redactor::new(true, &values);
        let (mut found, mut rest) = (String::new(), text.as_str());
        for cut in cuts.iter().cycle() {
            let place = (*cut..rest.len()).find(|place| rest.is_char_boundary(*place)).unwrap_or(rest.len());
            let (piece, next) = rest.split_at(place);
            found.push_str(&redactor.push(piece));
            rest = next;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(found + &redactor.finish(), whole);
    }

    #[test]
    fn a_given_value_is_never_seen(text in texts(), value in "[a-z0-9:/@=é ]{8,20}", more in texts()) {
        let values = exact(&[("X", &value)]);
        let masked = redact(&format!("{text}{value}{more}"), &values).into_owned();
        // The mask itself is no secret.
        prop_assume!(!"[masked: X]".contains(&value));
        prop_assert!(!masked.contains(&value), "{}", masked);
    }

    #[test]
    fn any_text_is_read(text in "\\PC*", size in 1_usize..9) {
        prop_assert_eq!(redacted(&text, &Arc::default(), size), redact(&text, &Arc::default()).into_owned());
    }
}
