// Writes vectors.json: messages made from the format's description alone, with Node.js and OpenSSL's
// AES-GCM, AES key wrap and RSA-OAEP, so that nothing of this package is on both sides of a test.
// usage: node vectors.mjs > vectors.json    (the RSA vector changes each time: OAEP is randomised)
import { createCipheriv, generateKeyPairSync, publicEncrypt, constants } from 'node:crypto';

const bytes = (first, n) => Buffer.from(Array.from({ length: n }, (_, i) => (first + i) & 0xff));
const kek = bytes(0x00, 32); // the key that wraps
const cek = bytes(0x80, 32); // the content key

// What is wrapped: the version in eight bytes, then the content key.
const toWrap = version => Buffer.concat([Buffer.from(version), Buffer.alloc(8 - version.length), cek]);

const aesWrap = version => {
  const c = createCipheriv('id-aes256-wrap', kek, Buffer.from('a6a6a6a6a6a6a6a6', 'hex'));
  return Buffer.concat([c.update(toWrap(version)), c.final()]);
};

const region = (nonce, plain) => {
  const c = createCipheriv('aes-256-gcm', cek, nonce);
  const sealed = Buffer.concat([c.update(plain), c.final()]);
  return Buffer.concat([nonce, sealed, c.getAuthTag()]);
};

// The .NET SDK: four zero bytes, then a 64-bit counter from 1, little end first.
const dotnetNonce = i => { const n = Buffer.alloc(12); n.writeBigUInt64LE(BigInt(i + 1), 4); return n; };
const pythonNonce = i => { const n = Buffer.alloc(12); n.writeBigUInt64BE(BigInt(i), 4); return n; };
const javaNonce = i => { const n = Buffer.alloc(12); n.writeBigUInt64BE(BigInt(i), 0); return n; };

const regions = (plain, size, nonce) => {
  const out = [];
  for (let i = 0; i * size < plain.length; i++) out.push(region(nonce(i), plain.subarray(i * size, (i + 1) * size)));
  return Buffer.concat(out);
};

const document = ({ contents, key, keyId = 'local:key-1', algorithm = 'A256KW', version = '2.0', size = 4194304, library = 'azsdk-net-Storage.Queues/12.17.0 (.NET 8.0.0; Linux)' }) => ({
  EncryptedMessageContents: contents.toString('base64'),
  EncryptionData: {
    EncryptionMode: 'FullBlob',
    WrappedContentKey: { KeyId: keyId, EncryptedKey: key.toString('base64'), Algorithm: algorithm },
    EncryptionAgent: { Protocol: version, EncryptionAlgorithm: 'AES_GCM_256' },
    EncryptedRegionInfo: { DataLength: size, NonceLength: 12 },
    KeyWrappingMetadata: { EncryptionLibrary: library },
  },
});

// .NET's writer escapes the plus signs of Base64.
const dotnet = o => JSON.stringify(document(o)).replaceAll('+', '\\u002B');
// Python's puts spaces after commas and colons, and has no mode.
const python = o => {
  const d = document(o);
  delete d.EncryptionData.EncryptionMode;
  return JSON.stringify(d, null, 1).replace(/,\n */g, ', ').replace(/\n */g, '');
};

const order = Buffer.from('{"orderId":42}');
const runes = Buffer.from('e19aa0e19b87e19abb0a', 'hex'); // the .NET SDK's own test text
const long = Buffer.from('The quick brown fox jumps over the lazy dog, and over the queue as well. '.repeat(4));
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const jwk = privateKey.export({ format: 'jwk' });
const rsa = hash => publicEncrypt({ key: publicKey, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: hash }, toWrap('2.0'));

const vectors = [
  { name: '.NET, AES key wrap', plain: order, message: dotnet({ contents: region(dotnetNonce(0), order), key: aesWrap('2.0') }) },
  { name: '.NET, UTF-8', plain: runes, message: dotnet({ contents: region(dotnetNonce(0), runes), key: aesWrap('2.0') }) },
  { name: '.NET, a message of no bytes', plain: Buffer.alloc(0), message: dotnet({ contents: Buffer.alloc(0), key: aesWrap('2.0') }) },
  { name: '.NET, RSA-OAEP', plain: order, message: dotnet({ contents: region(dotnetNonce(0), order), key: rsa('sha1'), keyId: 'rsa-1', algorithm: 'RSA-OAEP' }) },
  { name: '.NET, RSA-OAEP-256', plain: order, message: dotnet({ contents: region(dotnetNonce(0), order), key: rsa('sha256'), keyId: 'rsa-1', algorithm: 'RSA-OAEP-256' }) },
  { name: '.NET, regions of 16 bytes', plain: long, message: dotnet({ contents: regions(long, 16, dotnetNonce), key: aesWrap('2.0'), size: 16 }) },
  { name: 'version 2.1, regions of 100 bytes, numbered as Java does', plain: long, message: dotnet({ contents: regions(long, 100, javaNonce), key: aesWrap('2.1'), version: '2.1', size: 100 }) },
  { name: 'regions numbered as Python does', plain: long, message: dotnet({ contents: regions(long, 100, pythonNonce), key: aesWrap('2.0'), size: 100 }) },
  { name: 'Python, a random nonce', plain: order, message: python({ contents: region(bytes(0x37, 12), order), key: aesWrap('2.0'), library: 'Python 12.9.0' }) },
];
console.log(JSON.stringify({
  kek: kek.toString('hex'), cek: cek.toString('hex'), rsa: jwk,
  vectors: vectors.map(v => ({ ...v, plain: v.plain.toString('base64') })),
}, null, 1));
